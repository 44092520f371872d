"""Whether two computations give the same vectors, up to the rounding of their precision."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

PROBES = ["A dog runs.", "Someone plays an old guitar in the park while two men are sitting on a bench."]
"""Texts that are compared: a short sentence and a longer one."""


class Tolerance(NamedTuple):
    """Largest differences that rounding explains.

    Attributes:
        difference: Length of the difference, as a fraction of the longer vector's length, here.
        value: Difference of a value from that in another library, as a fraction of the vector's length.
    """

    difference: float
    value: float


TOLERANCES = {
    "float32": Tolerance(1e-3, 1e-4),
    "16 bit": Tolerance(0.05, 0.05),
    "quantised": Tolerance(0.05, 0.5),
}
"""By the arithmetic of a backbone."""


def tolerance_of(backbone: PreTrainedModel) -> Tolerance:
    """Return the tolerances of a backbone's arithmetic."""
    if getattr(backbone, "is_quantized", False):
        return TOLERANCES["quantised"]
    return TOLERANCES["float32" if backbone.dtype == torch.float32 else "16 bit"]


def same_vectors(first: Tensor, second: Tensor, backbone: PreTrainedModel) -> bool:
    """Return whether vectors that a backbone gave twice are the same, up to rounding; NaN never is."""
    longer = torch.maximum(first.norm(), second.norm())
    return bool((first - second).norm() <= tolerance_of(backbone).difference * longer)
