"""Linear layers that multiply 8-bit integers, for encoding on CPUs (AVX512-VNNI, AMX)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn


class Int8Linear(nn.Module, ABC):
    """Linear layer with weights and inputs in 8 bits, and exact sums in 32.

    Inputs are divided by a factor of each column and weights multiplied by it, so that columns with large
    inputs take less of the range (SmoothQuant, Xiao et al. 2023, eq. 4):

        s_j = max |x_j|^alpha / max |W_j|^(1 - alpha).

    Weights have a scale w_i for each output. Inputs have a step d and a zero point z:

        y_i = d w_i sum_j (q_j - z) V_ij + b_i,
        q_j = clip(round(x_j / (s_j d)) + z, 0, 255),    V_ij = round(s_j W_ij / w_i).

    Args:
        linear: The layer.
        inputs: Inputs that it gets, (n, in).
        alpha: Share of the inputs in the factors.
    """

    weight: Tensor
    factor: Tensor
    scale: Tensor
    bias: Tensor
    offset: Tensor
    zeros: Tensor

    def __init__(self, linear: nn.Linear, inputs: Tensor, alpha: float) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        largest = inputs.abs().amax(0)
        largest.clamp_(min=max(0.03 * float(largest.mean()), 1e-5))  # a column may wake up later
        smoothing = largest.pow(alpha) / weight.abs().amax(0).clamp(min=1e-5).pow(1 - alpha)
        weight = weight * smoothing
        scale = weight.abs().amax(1).clamp(min=1e-12) / 127
        self.register_buffer("weight", (weight / scale[:, None]).round().to(torch.int8).contiguous())
        self.packed = torch.ops.onednn.qlinear_prepack(self.weight, None)
        self.register_buffer("factor", smoothing.reciprocal())
        self.register_buffer("scale", scale)
        bias = torch.zeros_like(scale) if linear.bias is None else linear.bias.detach().float().clone()
        self.register_buffer("bias", bias)
        self.register_buffer("zeros", torch.zeros_like(scale, dtype=torch.int64))
        self.zero_point = self.find_range(inputs * self.factor)
        self.register_buffer("offset", torch.tensor(self.zero_point + 0.5))  # conversion cuts digits off

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of: packed weights can only be multiplied."""
        return {name: value for name, value in self.__dict__.items() if name != "packed"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy, and pack its weights."""
        self.__dict__.update(state)
        self.packed = torch.ops.onednn.qlinear_prepack(self.weight, None)

    @abstractmethod
    def find_range(self, inputs: Tensor) -> int:
        """Return the zero point, given inputs divided by the factors, (n, in)."""

    def multiply(self, rounded: Tensor, step: float, bias: Tensor | None) -> Tensor:
        """Return y, (..., out).

        Args:
            rounded: q, unsigned 8-bit integers, (..., in).
            step: d.
            bias: b, (out,).
        """
        outputs: Tensor = torch.ops.onednn.qlinear_pointwise(
            rounded.contiguous(),
            step,
            self.zero_point,
            self.packed,
            self.scale,
            self.zeros,
            bias,
            1.0,  # scale and zero point of outputs in 8 bits, which these are not
            0,
            torch.float32,
            "none",
            [],
            "",
        )
        return outputs


class StaticInt8Linear(Int8Linear):
    """`Int8Linear` with one step for all tokens. Inputs outside the range that it was given are clipped."""

    step: float

    def find_range(self, inputs: Tensor) -> int:
        """Choose step and zero point for the range of all inputs."""
        low, high = min(float(inputs.min()), 0.0), max(float(inputs.max()), 0.0)
        self.step = max((high - low) / 255, 1e-12)
        self.factor.div_(self.step)
        return round(-low / self.step)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs of shape (..., in) to outputs of shape (..., out)."""
        rounded = torch.addcmul(self.offset, inputs, self.factor).clamp_(0, 255)
        return self.multiply(_cut(rounded), self.step, self.bias)


class DynamicInt8Linear(Int8Linear):
    """`Int8Linear` with a step for each token, the smallest at which none of its inputs is clipped.

    It reads and writes inputs and outputs more often than `StaticInt8Linear`.
    """

    def find_range(self, inputs: Tensor) -> int:
        """Choose the zero point with the smallest steps."""
        low, high = inputs.amin(1, keepdim=True), inputs.amax(1, keepdim=True)
        zero_points = torch.arange(1, 255)
        steps = torch.maximum(high / (255 - zero_points), -low / zero_points)
        return int(zero_points[steps.mean(0).argmin()])

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs of shape (..., in) to outputs of shape (..., out)."""
        scaled = inputs * self.factor
        low, high = scaled.amin(-1, keepdim=True), scaled.amax(-1, keepdim=True)  # faster than aminmax
        step = torch.maximum(high / (255 - self.zero_point), low / -self.zero_point).clamp_(min=1e-12)
        rounded = _cut(scaled.mul_(1 / step).add_(self.offset))
        return self.multiply(rounded, 1.0, None).mul_(step).add_(self.bias)


def _cut(values: Tensor) -> Tensor:
    """Return values from 0 to 255 without their decimals, as unsigned 8-bit integers.

    torch converts float32 to them one by one, but in vectors by way of 16 bits: in a quarter of the time.
    """
    return values.to(torch.int16).to(torch.uint8)
