"""Linear layers in 8-bit integers, for encoding on CPUs that multiply them (AVX512-VNNI, AMX)."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel

from sts_lightning.errors import ConfigError
from sts_lightning.models.cosines import cosines
from sts_lightning.models.quantization import linear_weights

LIMIT = 0.005
"""Largest mean change of the cosines of `CALIBRATION`; MiniLM's change by 0.003."""

Encode = Callable[[list[str]], np.ndarray]

COVERED = 0.95
"""Least part of the weights of matrices, without embeddings, that has to be in linear layers."""

CALIBRATION = (
    "A woman is slicing an onion.",
    "Two dogs are running across a wet field.",
    "The committee postponed its vote on the new budget until Thursday.",
    "How do I remove a stripped screw from a laptop?",
    "Shares of the company fell 3.4% after the announcement.",
    "No one is playing the guitar.",
    "It depends on what you mean by 'fair'.",
    "The bridge, built in 1911, was closed to traffic for repairs.",
    "I would not put it in the oven at that temperature!",
    "A man in a red jacket is riding a bicycle down a snowy street.",
    "Scientists have found water ice near the planet's south pole.",
    "Thanks, that worked.",
    "The current flows only when the switch is closed and the circuit is complete.",
    "Police said that three people were taken to hospital; none was seriously hurt.",
    "Is there a difference between a lemma and a corollary?",
    "The children were asked to draw what they had seen at the zoo.",
    "Prices rose in most regions, but wages did not keep up with them.",
    "to move quickly on foot",
    "the act of giving something to a person in need",
    "A cat sleeps on top of a warm car.",
    "She has never been to Lisbon, although her parents were born there.",
    "Parliament adopted the amendment by a large majority.",
    "RT: new album out tomorrow, can't wait #music",
    "The recipe calls for two cups of flour, a pinch of salt and 250 ml of milk.",
    "An elderly couple is dancing slowly in an empty hall.",
    "You could ask your landlord for permission in writing, and keep a copy of the answer.",
    "Nobody expected the storm to turn north so early in the season.",
    "The team lost its first match 2-0 and won the next five.",
    "We should try to reach an agreement before the end of the year.",
    "Each node of the tree has at most two children.",
    "A plane is taking off.",
    "The witness later withdrew the statement that he had given to the court.",
)
"""Sentences whose activations show which inputs of a layer are large."""


class Int8Linear(nn.Module):
    """Linear layer with weights and inputs in 8 bits, and exact sums in 32.

    Inputs are divided by a factor s_j of each column and weights multiplied by it, so that columns with large
    inputs take less of the range (SmoothQuant, Xiao et al. 2023, eq. 4, alpha 0.5). Weights have a scale for
    each output and inputs a scale and an offset for each token, so that a token's output does not depend on
    others:

        y = d (q W) w + (lo + 128 d) sum(W) w + b,    q = round((x / s - lo) / d) - 128.

    Args:
        linear: The layer.
        largest: Largest absolute input of each column, (in,).
    """

    weight: Tensor
    smoothing: Tensor
    scale: Tensor
    total: Tensor
    bias: Tensor

    def __init__(self, linear: nn.Linear, largest: Tensor) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        largest = largest.clamp(min=max(0.03 * float(largest.mean()), 1e-5))  # a column may wake up later
        smoothing = (largest / weight.abs().amax(0).clamp(min=1e-5)).sqrt()
        weight = weight * smoothing
        scale = weight.abs().amax(1).clamp(min=1e-12) / 127
        rounded = (weight / scale[:, None]).round()
        self.register_buffer("weight", rounded.to(torch.int8).t().contiguous())
        self.register_buffer("smoothing", smoothing.reciprocal())
        self.register_buffer("scale", scale)
        self.register_buffer("total", rounded.sum(1) * scale)
        bias = torch.zeros_like(scale) if linear.bias is None else linear.bias.detach().float().clone()
        self.register_buffer("bias", bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs of shape (..., in) to outputs of shape (..., out)."""
        rows = inputs.reshape(-1, inputs.shape[-1]) * self.smoothing
        low, high = rows.amin(1, keepdim=True), rows.amax(1, keepdim=True)  # aminmax takes 15 times as long
        step = (high - low).div_(255).clamp_(min=1e-12)
        offset = low + 128 * step
        rounded = rows.sub_(offset).mul_(1 / step).round_().to(torch.int8)
        outputs = torch._int_mm(rounded, self.weight).float().mul_(self.scale).mul_(step)
        outputs.addr_(offset[:, 0], self.total).add_(self.bias)
        return outputs.view(*inputs.shape[:-1], -1)


def convert_to_int8(backbone: nn.Module, encode: Encode) -> None:
    """Replace the linear layers of an encoder's backbone, in place, by ones of 8 bits.

    Args:
        backbone: The transformer, in float32 on a CPU.
        encode: `SentenceEncoder.encode` of the encoder that it belongs to.

    Raises:
        ConfigError: The machine or the model does not go with it, or the cosines of sentences change by more
            than `LIMIT`; then the backbone is as before.
    """
    _check_machine(backbone)
    linears = {name: part for name, part in backbone.named_modules() if type(part) is nn.Linear}
    _check_model(backbone, linears)
    before, largest = _calibrate(encode, linears)
    for name, inputs in largest.items():
        backbone.set_submodule(name, Int8Linear(linears[name], inputs))
    problem = _problem(encode, before)
    if problem is None:
        return
    for name in largest:
        backbone.set_submodule(name, linears[name])
    raise ConfigError(f"int8 {problem}. Use 32-true.", key="precision")


def _problem(encode: Encode, before: np.ndarray) -> str | None:
    """Return what is wrong with a converted encoder, if anything, given its vectors before."""
    try:
        after = encode(list(CALIBRATION))
    except (AttributeError, TypeError, RuntimeError) as error:
        return f"needs layers that are called, and this model reads their weights itself ({error})"
    change = float(np.abs(cosines(after) - cosines(before)).mean())
    if change <= LIMIT:
        return None
    return f"changes the cosines of this model's vectors by {change:.4f} on average, more than {LIMIT:g}"


def _calibrate(encode: Encode, linears: dict[str, nn.Linear]) -> tuple[np.ndarray, dict[str, Tensor]]:
    """Return the vectors of `CALIBRATION`, and the largest absolute inputs of the layers that were called."""
    largest: dict[str, Tensor] = {}
    lock = Lock()

    def watch(name: str) -> RemovableHandle:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            found = inputs[0].detach().reshape(-1, inputs[0].shape[-1]).abs().amax(0)
            with lock:  # chunks are encoded in threads
                largest[name] = torch.maximum(largest[name], found) if name in largest else found

        return linears[name].register_forward_pre_hook(hook)

    hooks = [watch(name) for name in linears]
    try:
        return encode(list(CALIBRATION)), largest
    finally:
        for hook in hooks:
            hook.remove()


def multiplies_int8() -> bool:
    """Return whether the CPU has instructions for sums of 8-bit products (AVX512-VNNI or AMX)."""
    return torch.cpu._is_vnni_supported() or torch.cpu._is_amx_tile_supported()


def _check_machine(backbone: nn.Module) -> None:
    """Reject machines on which 8-bit products are slow or not exact."""
    if next(backbone.parameters()).device.type != "cpu":
        raise ConfigError("int8 is for CPUs; on a GPU use bf16-true.", key="precision")
    if not multiplies_int8():
        raise ConfigError(
            "this CPU has no instructions for 8-bit products (AVX512-VNNI or AMX), without which int8 is "
            "slower than float32; use 32-true.",
            key="precision",
        )


def _check_model(backbone: nn.Module, linears: dict[str, nn.Linear]) -> None:
    """Reject models that are not float32, or whose products are mostly elsewhere than in linear layers."""
    if not isinstance(backbone, PreTrainedModel):
        raise ConfigError(
            "int8 needs a model without adapter; merge it with `sts-lightning export RUN FOLDER --format "
            "merged`.",
            key="precision",
        )
    weights = linear_weights(backbone)
    if backbone.dtype != torch.float32 or any(quantised for _, quantised in weights.values()):
        raise ConfigError("int8 is made from float32 weights without quantisation.", key="precision")
    covered = sum(size for name, (size, _) in weights.items() if name.removesuffix(".weight") in linears)
    total = sum(size for size, _ in weights.values())
    if not linears or covered < COVERED * total:
        raise ConfigError(
            f"only {covered / max(total, 1):.0%} of the weights of {type(backbone).__name__} are in "
            f"linear layers; int8 needs {COVERED:.0%}.",
            key="precision",
        )
