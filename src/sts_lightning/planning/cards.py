"""Memory and speed of cards, and the time that arithmetic takes on them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import psutil
import torch

from sts_lightning.config.machine import cpu_multiplies_bfloat16
from sts_lightning.errors import ConfigError
from sts_lightning.planning.meter import Cost

GIB = 2**30

CONTEXT = int(0.75 * GIB)
"""Memory of a card that PyTorch's tensors cannot use: CUDA's context, kernels, workspaces of libraries."""

FRAGMENTS = 0.05
"""Fraction of the rest that is lost between tensors."""

EFFICIENCY = 0.5
"""Fraction of a card's peak that its matrix products reach; an assumption."""

BANDWIDTH = 0.7
"""Fraction of a card's bandwidth that other operations reach; an assumption."""


@dataclass(frozen=True)
class Card:
    """A device to plan for.

    Attributes:
        name: Name for the output.
        memory: Its memory in bytes.
        half: Matrix products in 16 bits in FLOP/s, 0 if only its memory is known.
        full: The same in 32 bits.
        bandwidth: Bytes/s to its memory.
        precision: Precision that ``auto`` stands for on it.
        gpu: Whether it is a GPU.
    """

    name: str
    memory: int
    half: float = 0.0
    full: float = 0.0
    bandwidth: float = 0.0
    precision: str = "bf16-mixed"
    gpu: bool = True

    @property
    def usable(self) -> int:
        """Bytes that tensors can take."""
        return int((self.memory - CONTEXT) * (1 - FRAGMENTS)) if self.gpu else self.memory

    def seconds(self, costs: Counter[Cost]) -> float | None:
        """Return the time of operations, each limited by arithmetic or by bandwidth; None if not known."""
        if not self.bandwidth:
            return None
        return sum(count * self._seconds(cost) for cost, count in costs.items())

    def _seconds(self, cost: Cost) -> float:
        peak = self.full if cost.dtype == torch.float32 else self.half
        return max(cost.flops / (peak * EFFICIENCY), cost.moved / (self.bandwidth * BANDWIDTH))


def _card(name: str, gib: int, half: float, full: float, bandwidth: float, precision: str) -> Card:
    return Card(name, gib * GIB, half * 1e12, full * 1e12, bandwidth * 1e9, precision)


CARDS = {
    card.name: card
    for card in (
        _card("t4", 15, 65, 8.1, 320, "32-true"),
        _card("v100-32", 32, 125, 15.7, 900, "32-true"),
        _card("rtx3090", 24, 71, 35.6, 936, "bf16-mixed"),
        _card("rtx4090", 24, 165, 82.6, 1008, "bf16-mixed"),
        _card("rtx5090", 32, 210, 105, 1792, "bf16-mixed"),
        _card("l4", 23, 121, 30.3, 300, "bf16-mixed"),
        _card("a10", 23, 125, 31.2, 600, "bf16-mixed"),
        _card("a6000", 48, 155, 38.7, 768, "bf16-mixed"),
        _card("l40s", 45, 362, 91.6, 864, "bf16-mixed"),
        _card("a100-40", 40, 312, 19.5, 1555, "bf16-mixed"),
        _card("a100-80", 80, 312, 19.5, 2039, "bf16-mixed"),
        _card("h100", 80, 989, 67, 3350, "bf16-mixed"),
        _card("h200", 140, 989, 67, 4800, "bf16-mixed"),
        _card("b200", 179, 2250, 80, 8000, "bf16-mixed"),
    )
}
"""Cards by name: dense peaks of the makers' data sheets (16-bit products summed in 32 bits)."""


NO_SPEED = re.compile(r"nvidia|tesla|geforce|rtx|pcie|sxm\d*|hbm\d\w?|\d+gb")
"""Words in the name of a device besides that of its model: its line, its socket and its memory."""


def find_card(text: str) -> Card:
    """Return a card by its name, one of which only the memory is known, such as ``24GB``, or this ``cpu``.

    Raises:
        ConfigError: It is neither.
    """
    name = text.lower()
    if name == "cpu":
        return _cpu()
    if name in CARDS:
        return CARDS[name]
    size = re.fullmatch(r"(\d+(?:\.\d+)?) ?gi?b", name)
    if size is None or not 0 < float(size[1]) < 1e6:
        raise ConfigError(
            f"card {text!r} is not known.",
            key="card",
            hint=f"Choose among cpu, {', '.join(CARDS)}, or give the memory, as in 24GB.",
        )
    return Card(text, int(float(size[1]) * GIB))


def this_machine() -> Card:
    """Return the visible GPU, with its speed if it is one of `CARDS`; or this CPU, of unknown speed."""
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        known = _known(properties.name, properties.total_memory)
        precision = "bf16-mixed" if properties.major >= 8 else "32-true"
        speed = (known.half, known.full, known.bandwidth) if known else (0.0, 0.0, 0.0)
        return Card(properties.name, properties.total_memory, *speed, precision)
    return _cpu()


def _cpu() -> Card:
    precision = "bf16-mixed" if cpu_multiplies_bfloat16() else "32-true"
    return Card("this CPU", psutil.virtual_memory().available, precision=precision, gpu=False)


def _known(title: str, memory: int) -> Card | None:
    """Return the entry of `CARDS` for a device by its name as CUDA gives it, None if it has none.

    Every word of the name counts, but for those that say nothing of the speed: a laptop's 4090, a slice of an
    A100 (``MIG 2g.20gb``), an L40 and a T400 are other cards than the 4090, the A100, the L4 and the T4.
    """
    words = [word for word in re.split(r"[\s-]+", title.lower()) if not NO_SPEED.fullmatch(word)]
    same = [card for card in CARDS.values() if card.name.split("-")[0].removeprefix("rtx") == "".join(words)]
    return min(same, key=lambda card: abs(card.memory - memory), default=None)
