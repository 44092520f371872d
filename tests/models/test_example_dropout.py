"""Dropout of examples: its masks, and what they do not depend on."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from peft import LoraConfig
from torch import Tensor, nn
from torch.nn import functional as F

from sts_lightning.errors import TrainingError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.example_dropout import (
    ExampleDropout,
    check_example_dropout,
    mix,
    row_keys,
)
from sts_lightning.models.lora_dropout import save_inputs_once
from sts_lightning.testing.tiny_bert import character_tokenizer, tiny_bert
from tests.models.families import tiny

SENTENCES = [["a dog runs", "x", "someone plays an old guitar in the park"], ["b", "two dogs sleep", "yes"]]
GOLDEN = 0x9E3779B97F4A7C15


def finalised(x: int) -> int:
    """SplitMix64 after `java.util.SplittableRandom`, in Python's whole numbers."""
    x = (x + GOLDEN) % 2**64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def test_the_generator_is_splitmix64() -> None:
    assert finalised(0) == 0xE220A8397B1DCDAF  # the first output of the published code for seed 0
    values = [0, 1, 12345, -1, 2**62]
    found = [value % 2**64 for value in mix(torch.tensor(values)).tolist()]
    assert found == [finalised(value % 2**64) for value in values]


def test_masks_against_a_slow_loop() -> None:
    keys, rate = [3, -7], 0.3
    x = torch.ones(2, 3, 4, 2)
    with ExampleDropout(torch.tensor(keys)) as mode:
        F.dropout(x, rate)
        dropped = F.dropout(x, rate)
    assert mode.calls == 2
    for row, a, b, c in np.ndindex(2, 3, 4, 2):
        key = finalised((keys[row] + GOLDEN) % 2**64)
        number = finalised((key + (((a << 21) + b) << 21) + c) % 2**64)
        kept = (number >> 40) / 2**24 >= rate
        assert dropped[row, a, b, c].item() == pytest.approx(1 / (1 - rate) if kept else 0.0)


def test_masks_are_independent_and_of_the_rate() -> None:
    with ExampleDropout(row_keys(0, 0, 0, 2, range(50))):
        masks = torch.stack([F.dropout(torch.ones(100, 40, 50), 0.25) == 0 for _ in range(3)]).double()
    count = masks.numel()
    assert masks.mean().item() == pytest.approx(0.25, abs=5 * math.sqrt(0.25 * 0.75 / count))
    for other in (masks.roll(1, 0), masks.roll(1, 1), masks.roll(1, 2), masks.roll(1, 3), masks.roll(50, 1)):
        both = (masks * other).mean().item()
        assert both == pytest.approx(0.0625, abs=5 * math.sqrt(0.0625 / count))


def test_no_two_rows_share_a_key() -> None:
    keys = [
        *(
            row_keys(seed, epoch, batch, 2, range(8))
            for seed in (0, 1)
            for epoch in (0, 1)
            for batch in (0, 1)
        ),
        row_keys(2**32 - 1, 0, 0, 2, range(8)),
    ]
    assert len(set(torch.cat(keys).tolist())) == 9 * 16


def vectors_and_gradient(
    encoder: SentenceEncoder, chunk_tokens: int, rows: list[list[str]], keys: Tensor, micro: int | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    batch = encoder.prepare(chunk_tokens, training=True)(rows, [None] * len(rows))
    if micro is not None:
        batch = batch.limited(micro)
    encoder.zero_grad()
    vectors = encoder.pool_rows(batch, micro is not None, keys)
    weights = torch.linspace(-1, 1, vectors.shape[1])
    (vectors * weights).square().sum().backward()
    found = {name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None}
    return vectors.detach(), found


def bert(checkpointing: bool = False) -> SentenceEncoder:
    encoder = tiny_bert(dropout=0.3).train()
    if checkpointing:
        encoder.checkpoint_layers()
        encoder.train()
    return encoder


def decoder() -> SentenceEncoder:
    backbone = tiny("llama", attention_dropout=0.2)
    adapter = LoraConfig(target_modules=["q_proj", "v_proj"], lora_dropout=0.3, init_lora_weights=False)
    torch.manual_seed(0)
    encoder = SentenceEncoder(
        backbone, character_tokenizer(), pooling="last_token", max_length=32, adapter=adapter
    )
    save_inputs_once(encoder)
    return encoder.train()


@pytest.mark.parametrize(
    "make", [bert, lambda: bert(checkpointing=True), decoder], ids=["bert", "ckpt", "lora"]
)
def test_chunks_and_micro_batches_change_nothing(make: Callable[[], SentenceEncoder]) -> None:
    encoder = make()
    keys = row_keys(5, 1, 2, 2, range(3))
    vectors, gradient = vectors_and_gradient(encoder, 1000, SENTENCES, keys)
    state = torch.get_rng_state()
    for chunk_tokens, micro in ((1000, None), (1, None), (30, None), (1000, 1), (1000, 4), (40, 2)):
        others, other = vectors_and_gradient(encoder, chunk_tokens, SENTENCES, keys, micro)
        assert torch.allclose(others, vectors, atol=2e-6)
        assert gradient.keys() == other.keys()
        assert all(torch.allclose(other[name], gradient[name], atol=2e-5) for name in gradient)
    assert torch.equal(state, torch.get_rng_state())
    again, _ = vectors_and_gradient(encoder, 1000, SENTENCES, row_keys(5, 1, 3, 2, range(3)))
    assert not torch.allclose(again, vectors, atol=1e-2)


@pytest.mark.slow
def test_a_part_of_the_batch_has_the_same_masks() -> None:
    encoder = bert()
    whole, _ = vectors_and_gradient(encoder, 1000, SENTENCES, row_keys(5, 1, 2, 2, range(3)))
    part = [view[1:] for view in SENTENCES]
    some, _ = vectors_and_gradient(encoder, 1000, part, row_keys(5, 1, 2, 2, range(1, 3)))
    assert torch.allclose(some.reshape(2, 2, -1), whole.reshape(2, 3, -1)[:, 1:], atol=2e-6)


def test_the_gradient_of_a_dropped_layer() -> None:
    """Finite differences, in which the masks stay."""
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)

    def dropped(values: Tensor) -> Tensor:
        with ExampleDropout(torch.arange(2)):
            return F.dropout(values, 0.5).square()

    assert torch.autograd.gradcheck(dropped, x)


class Flat(nn.Module):
    """Drops tokens without a dimension of rows."""

    def forward(self, chunk: dict[str, Tensor]) -> Tensor:
        return F.dropout(chunk["input_ids"].float().flatten(), 0.5)


def own_kernel(chunk: dict[str, Tensor]) -> Tensor:
    return chunk["input_ids"].float() * torch.rand(2, 4)


def other_function(chunk: dict[str, Tensor]) -> Tensor:
    return F.alpha_dropout(chunk["input_ids"].float(), 0.5, True)


@pytest.mark.parametrize("embed", [Flat(), own_kernel, other_function])
def test_models_without_such_a_form_are_rejected(embed: Callable[[dict[str, Tensor]], Tensor]) -> None:
    with pytest.raises(TrainingError, match="dropout=process"):
        check_example_dropout(embed, {"input_ids": torch.ones(2, 4, dtype=torch.int64)})


def test_a_model_that_has_it_passes() -> None:
    encoder = bert()
    check_example_dropout(encoder.embed_chunk, encoder.longest_rows(2))
