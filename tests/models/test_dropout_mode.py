"""What every other way to draw dropout shares: where it drops, and what a checkpoint repeats."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from sts_lightning.models.dropout_mode import DropoutMode, active_mode, checkpoint_contexts, drawing
from sts_lightning.models.example_dropout import ExampleDropout
from sts_lightning.models.process_dropout import ProcessDropout


@pytest.mark.parametrize("mask", ["none", "boolean", "additive", "causal"])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("kind", [ProcessDropout, lambda: ExampleDropout(torch.arange(2))])
def test_attention_is_that_of_the_library_but_for_the_mask(
    kind: Callable[[], DropoutMode], mask: str, grouped: bool
) -> None:
    torch.manual_seed(0)
    query, key, value = (
        torch.randn(2, heads, 5, 3) for heads in (4, 2 if grouped else 4, 2 if grouped else 4)
    )
    visible = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    visible[1, ..., 3:] = False
    options: dict[str, object] = {
        "none": {},
        "boolean": {"attn_mask": visible},
        "additive": {"attn_mask": torch.zeros(2, 1, 5, 5).masked_fill(~visible, -1e9)},
        "causal": {"is_causal": True},
    }[mask]  # type: ignore[assignment]
    exact = F.scaled_dot_product_attention(query, key, value, enable_gqa=grouped, **options)  # type: ignore[arg-type]
    with drawing(kind()):
        same = F.scaled_dot_product_attention(query, key, value, enable_gqa=grouped, **options)  # type: ignore[arg-type]
        tiny_rate = F.scaled_dot_product_attention(
            query,
            key,
            value,
            dropout_p=1e-9,
            enable_gqa=grouped,
            **options,  # type: ignore[arg-type]
        )
        half = F.scaled_dot_product_attention(query, key, value, dropout_p=0.5, enable_gqa=grouped, **options)  # type: ignore[arg-type]
    assert torch.equal(same, exact)
    assert torch.allclose(tiny_rate, exact, atol=1e-6)
    assert not torch.allclose(half, exact, atol=1e-2)


def test_without_dropout_nothing_is_drawn() -> None:
    state = torch.get_rng_state()
    example = ExampleDropout(torch.arange(2))
    query = torch.randn(2, 1, 5, 3, generator=torch.Generator().manual_seed(0))
    for mode in (example, ProcessDropout()):
        with drawing(mode):
            F.scaled_dot_product_attention(query, query, query)
            F.dropout(query, 0.5, training=False)
            F.dropout(query, 0.0)
    assert example.calls == 0
    assert torch.equal(torch.get_rng_state(), state)


def test_a_checkpoint_draws_again_what_it_drew() -> None:
    x = torch.ones(2, 50)
    with drawing(ExampleDropout(torch.arange(2))):
        F.dropout(x, 0.5)
        first, second = checkpoint_contexts()
        with first:
            dropped = F.dropout(x, 0.5)
    with second:
        assert isinstance(active_mode(), ExampleDropout)
        assert torch.equal(F.dropout(x, 0.5), dropped)
    assert active_mode() is None
