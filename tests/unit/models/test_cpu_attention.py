"""Attention in half precision on a CPU equals the library's, and runs in the faster form."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from sts_lightning.models.compute.cpu_attention import AttentionInFloat32
from sts_lightning.models.encoder import SentenceEncoder

HEADS, LENGTH, WIDTH = 4, 13, 8


class Seen(TorchFunctionMode):
    """Records the keys of each attention: their number and their dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[tuple[int, torch.dtype]] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if func is F.scaled_dot_product_attention:
            self.keys.append((args[1].shape[-2], args[1].dtype))
        return func(*args, **(kwargs or {}))


def parts(length: int, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(length)
    made = [torch.randn(3, HEADS, length, WIDTH, generator=generator) for _ in range(3)]
    return [part.to(dtype).requires_grad_() for part in made]


def masks(length: int) -> dict[str, dict[str, object]]:
    visible = torch.ones(3, 1, length, length, dtype=torch.bool)
    visible[1, ..., 5:] = False
    slopes = torch.arange(float(HEADS * length)).view(1, HEADS, 1, length) / 7
    return {
        "none": {},
        "boolean": {"attn_mask": visible},
        "one row": {"attn_mask": visible[:, :, :1]},
        "additive": {"attn_mask": slopes.masked_fill(~visible, float("-inf"))},
        "causal": {"is_causal": True},
    }


@pytest.mark.parametrize("mask", ["none", "boolean", "one row", "additive", "causal"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_gradient_of_half_precision_is_computed_in_float32(mask: str, dtype: torch.dtype) -> None:
    options = masks(LENGTH)[mask]
    own, exact = (
        parts(LENGTH, dtype),
        [part.float().detach().requires_grad_() for part in parts(LENGTH, dtype)],
    )
    with Seen() as seen, AttentionInFloat32(), torch.autocast("cpu", dtype=torch.bfloat16):
        attended = F.scaled_dot_product_attention(*own, **options)  # type: ignore[arg-type]
    expected = F.scaled_dot_product_attention(*exact, **options)  # type: ignore[arg-type]
    attended.square().sum().backward()
    (2 * expected.to(dtype).detach() * expected).sum().backward()
    assert attended.dtype == dtype and seen.keys == [(LENGTH, torch.float32)]
    for mine, theirs in zip(own, exact, strict=True):
        assert torch.equal(mine.grad, theirs.grad.to(dtype))  # type: ignore[union-attr]


@pytest.mark.parametrize("case", ["float32", "dropout", "long"])
def test_other_attention_stays_as_it_is(case: str) -> None:
    dtype = torch.float32 if case == "float32" else torch.bfloat16
    query, key, value = parts(160 if case == "long" else LENGTH, dtype)
    with Seen() as seen, AttentionInFloat32():
        F.scaled_dot_product_attention(query, key, value, None, 0.1 if case == "dropout" else 0.0)
    assert [found for _, found in seen.keys] == [dtype]


def test_an_encoder_without_dropout_trains_in_bfloat16_with_attention_in_float32(
    encoder: SentenceEncoder,
) -> None:
    rows = encoder.prepare(10**6, training=True)([["a cat sleeps", "two dogs run"]], [None])
    with Seen() as seen, torch.autocast("cpu", dtype=torch.bfloat16):
        encoder(rows).sum().backward()
    assert {dtype for _, dtype in seen.keys} == {torch.float32}
