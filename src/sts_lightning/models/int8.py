"""Conversion of an encoder to 8-bit integers, for CPUs that multiply them (AVX512-VNNI, AMX)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel

from sts_lightning.errors import ConfigError
from sts_lightning.models.cosines import cosines
from sts_lightning.models.int8_linear import DynamicInt8Linear, Int8Linear, StaticInt8Linear
from sts_lightning.models.quantization import linear_weights

LIMIT = 0.005
"""Largest mean change of the cosines of `CALIBRATION` and `UNSEEN`; MiniLM's change by 0.003."""

ALPHAS = (0.5, 0.6, 0.7, 0.8, 0.9)
"""Shares of the inputs in the factors of `Int8Linear` among which each layer has its own."""

WORSE = 1.5
"""How many times the error of `DynamicInt8Linear` that of `StaticInt8Linear` may be."""

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
"""Sentences whose activations show the range of a layer's inputs."""

UNSEEN = (
    "Fire!",
    "The quarterly report of Müller & Söhne GmbH lists 14,200 employees in 31 countries.",
    "Why do cats purr, and do lions purr too?",
    "He put the keys, the wallet, two old train tickets and a half-eaten apple on the kitchen table before "
    "anyone could ask him where he had been all night, and then went to bed without a word.",
    "a device for measuring the humidity of the air",
    "The senator's spokeswoman declined to comment.",
    "git rebase keeps the history of a branch in one line.",
    "Not one of the guests believed her story, although every word of it was true.",
    "Heavy rain and winds of up to 140 km/h are expected along the coast on Friday.",
    "Three boys are kicking a ball in the street.",
    "lol that cat video again",
    "The enzyme breaks starch down into maltose.",
)
"""Sentences outside the calibration, which show whether its ranges hold."""


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
    before = encode([*CALIBRATION, *UNSEEN])
    if not np.isfinite(before).all():
        raise ConfigError("int8 needs finite vectors, and those of this model are not.", key="precision")
    inputs, others = (_inputs(encode, linears, sentences) for sentences in (CALIBRATION, UNSEEN))
    for name, seen in inputs.items():
        backbone.set_submodule(name, best_layer(linears[name], seen, others.get(name, seen)))
    problem = _problem(encode, before)
    if problem is None:
        return
    for name in inputs:
        backbone.set_submodule(name, linears[name])
    raise ConfigError(f"int8 {problem}. Use 32-true.", key="precision")


@torch.no_grad()
def best_layer(linear: nn.Linear, inputs: Tensor, others: Tensor) -> Int8Linear:
    """Return the faster layer of 8 bits where it is nearly as exact, else the more exact one.

    The share of the inputs in the factors is that of `ALPHAS` with the least squared error of the outputs.

    Args:
        linear: The layer.
        inputs: Inputs of it, (n, in), from which ranges are taken.
        others: Further inputs, (m, in), at which errors are measured too.
    """
    every = torch.cat([inputs, others])
    exact = linear(every)

    def error(layer: nn.Module) -> float:
        return float((layer(every) - exact).norm())

    static, dynamic = (
        min((kind(linear, inputs, alpha) for alpha in ALPHAS), key=error)
        for kind in (StaticInt8Linear, DynamicInt8Linear)
    )
    return static if error(static) <= WORSE * error(dynamic) else dynamic


def _problem(encode: Encode, before: np.ndarray) -> str | None:
    """Return what is wrong with a converted encoder, if anything, given its vectors before."""
    try:
        after = encode([*CALIBRATION, *UNSEEN])
    except (AttributeError, TypeError, RuntimeError) as error:
        return f"needs layers that are called, and this model reads their weights itself ({error})"
    change = float(np.abs(cosines(after) - cosines(before)).mean())
    if change <= LIMIT:
        return None
    return f"changes the cosines of this model's vectors by {change:.4f} on average, more than {LIMIT:g}"


def _inputs(encode: Encode, linears: dict[str, nn.Linear], sentences: Sequence[str]) -> dict[str, Tensor]:
    """Return the inputs, (n, in), of the layers that sentences call."""
    chunks: dict[str, list[Tensor]] = {}
    lock = Lock()

    def watch(name: str) -> RemovableHandle:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            with lock:  # chunks are encoded in threads
                chunks.setdefault(name, []).append(inputs[0].detach().reshape(-1, inputs[0].shape[-1]))

        return linears[name].register_forward_pre_hook(hook)

    hooks = [watch(name) for name in linears]
    try:
        encode(list(sentences))
    finally:
        for hook in hooks:
            hook.remove()
    return {name: torch.cat(inputs) for name, inputs in chunks.items()}


def multiplies_int8() -> bool:
    """Return whether the CPU has instructions for sums of 8-bit products (AVX512-VNNI or AMX)."""
    has = torch.cpu._is_vnni_supported() or torch.cpu._is_amx_tile_supported()
    return has and torch.backends.mkldnn.is_available()


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
