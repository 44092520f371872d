"""GPUs by name: memory, peaks of matrix products, and what the launches of a chunk's kernels cost."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files

import yaml

GIB = 2**30

CONTEXT = int(0.75 * GIB)
"""Memory of a card that PyTorch's tensors cannot use: CUDA's context, kernels, workspaces of libraries."""

FRAGMENTS = 0.05
"""Fraction of the rest that is lost between tensors."""

EFFICIENCY = 0.35
"""Fraction of a card's peak that a step reaches: an assumption, which no card has confirmed.

With it a 7B model's hours are those of version 0.3, which added up each operation's arithmetic or traffic.
"""

LAUNCH = {"plain": 0.7e-3, "adapted": 5.6e-3}
"""Seconds in which the host launches a layer's kernels in a step, with an adapter or without: assumptions.

A step has a forward pass, its recomputation and a backward pass. With LoRA, each linear layer is about ten
kernels instead of one, and more where its weights are quantised.
"""


@dataclass(frozen=True)
class Card:
    """A device to plan for.

    Attributes:
        name: Name for the output.
        memory: Its memory in bytes.
        half: Peak of matrix products in 16 bits in FLOP/s, 0 if only its memory is known.
        full: The same in 32 bits.
        precision: Precision that ``auto`` stands for on it.
        gpu: Whether it is a GPU.
    """

    name: str
    memory: int
    half: float = 0.0
    full: float = 0.0
    precision: str = "bf16-mixed"
    gpu: bool = True

    @property
    def usable(self) -> int:
        """Bytes that tensors can take."""
        return int((self.memory - CONTEXT) * (1 - FRAGMENTS)) if self.gpu else self.memory

    def peak(self, precision: str) -> float:
        """Return the peak of matrix products in FLOP/s under a precision, in Lightning's names."""
        return self.full if precision == "32-true" else self.half

    def launch_tokens(self, precision: str, layers: int, weights: int, adapted: bool) -> int:
        r"""Return how many tokens a GPU computes while the host launches the kernels of a chunk; 0 on a CPU.

        .. math:: l = 0.35 P \frac{t L}{6 N}

        t is the time of a layer's launches, P the peak of the card, and 6 N the operations of a token in a
        step of a model with L layers and N weights. `UNKNOWN` stands for a card whose peak is not known.

        Args:
            precision: Precision of the step, in Lightning's names.
            layers: L.
            weights: N, without embeddings.
            adapted: Whether linear layers have adapters.
        """
        if not self.gpu:
            return 0
        peak = self.peak(precision) or CARDS[UNKNOWN].peak(precision)
        launches = layers * LAUNCH["adapted" if adapted else "plain"]
        return int(EFFICIENCY * peak * launches / (6 * max(1, weights)))


_SHEETS = yaml.safe_load((files("sts_lightning.core") / "cards.yaml").read_text(encoding="utf-8"))

CARDS = {
    name: Card(name, gib * GIB, half * 1e12, full * 1e12, precision)
    for name, (gib, half, full, precision) in _SHEETS.items()
}
"""Cards whose peak is known, by name."""

UNKNOWN = "rtx4090"
"""Card whose peak stands for that of a card that is not known, between the slow and the fast ones."""


def known_card(name: str) -> Card | None:
    """Return the card of a driver's name, such as ``NVIDIA H100 PCIe``; None if it is not known.

    Of several cards whose words all are in the name, that with the most is meant.
    """
    words = set(re.findall(r"[a-z]+\d+[a-z]*|\d+|[a-z]+", re.sub(r"rtx (?=\d)", "rtx", name.lower())))
    known = [card for card in CARDS if set(card.split("-")) <= words]
    return CARDS[max(known, key=len)] if known else None
