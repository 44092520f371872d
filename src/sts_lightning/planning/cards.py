"""Memory and speed of cards, and the time that arithmetic takes on them."""

from __future__ import annotations

import re
import time
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
        overhead: Seconds that each operation takes in addition.
        measured: Whether it is the processor of this machine, which can be measured further.
        slowness: Factors by which training, dev evaluations during training, and the report take longer than
            the arithmetic of the encoder.
    """

    name: str
    memory: int
    half: float = 0.0
    full: float = 0.0
    bandwidth: float = 0.0
    precision: str = "bf16-mixed"
    gpu: bool = True
    overhead: float = 0.0
    measured: bool = False
    slowness: tuple[float, float, float] = (1.0, 1.0, 1.0)

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
        used = (EFFICIENCY, BANDWIDTH) if self.gpu else (1.0, 1.0)
        return max(cost.flops / (peak * used[0]), cost.moved / (self.bandwidth * used[1])) + self.overhead


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
        return measure_cpu()
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
    """Return the visible GPU, with its speed if it is one of `CARDS`, or this CPU, measured in seconds."""
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        known = _known(properties.name, properties.total_memory)
        precision = "bf16-mixed" if properties.major >= 8 else "32-true"
        speed = (known.half, known.full, known.bandwidth) if known else (0.0, 0.0, 0.0)
        return Card(properties.name, properties.total_memory, *speed, precision)
    return measure_cpu()


def _known(title: str, memory: int) -> Card | None:
    """Return the entry of `CARDS` for a device by its name as CUDA gives it, None if it has none.

    Every word of the name counts, but for those that say nothing of the speed: a laptop's 4090, a slice of an
    A100 (``MIG 2g.20gb``), an L40 and a T400 are other cards than the 4090, the A100, the L4 and the T4.
    """
    words = [word for word in re.split(r"[\s-]+", title.lower()) if not NO_SPEED.fullmatch(word)]
    same = [card for card in CARDS.values() if card.name.split("-")[0].removeprefix("rtx") == "".join(words)]
    return min(same, key=lambda card: abs(card.memory - memory), default=None)


def measure_cpu() -> Card:
    """Measure the speed of this CPU on operations of the size of a small model's."""
    rows, width = 512, 384
    rates = {}
    for dtype in (torch.float32, torch.bfloat16):
        a, b = torch.randn(rows, width).to(dtype), torch.randn(width, 4 * width).to(dtype)
        rates[dtype] = 2 * rows * width * 4 * width / _time(lambda a=a, b=b: a @ b)
    large, small = torch.randn(rows, 4 * width), torch.randn(8)
    overhead = _time(lambda: small + 1)
    seconds = max(_time(lambda: torch.nn.functional.gelu(large)) - overhead, 1e-9)
    native = cpu_multiplies_bfloat16()
    return Card(
        "this CPU",
        psutil.virtual_memory().available,
        rates[torch.bfloat16],
        rates[torch.float32],
        2 * large.numel() * 4 / seconds,
        "bf16-mixed" if native else "32-true",
        gpu=False,
        overhead=2 * overhead,  # forward and bookkeeping of the backward pass
        measured=True,
    )


def _time(call: object, turns: int = 30) -> float:
    """Return the median of the seconds of a call, after a warm-up."""
    assert callable(call)
    times = []
    for _ in range(turns + 5):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return sorted(times[5:])[turns // 2]
