"""Masks of a process: their rate, their gradient, and what repeats them."""

from __future__ import annotations

import math

import pytest
import torch
from peft import LoraConfig
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.models.dropout_mode import drawing
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.example_dropout import ExampleDropout
from sts_lightning.models.lora_dropout import save_inputs_once
from sts_lightning.models.process_dropout import ProcessDropout, draws_fast, dropout_of, process_mask
from sts_lightning.testing.tiny_bert import character_tokenizer, tiny_bert
from tests.models.families import tiny

SENTENCES = [["a dog runs", "x", "someone plays an old guitar in the park"], ["b", "two dogs sleep", "yes"]]


def test_the_mask_of_each_element_is_its_16_bits() -> None:
    """Against a loop over the bytes of what the generator draws."""
    x = torch.ones(3, 5, 2)
    torch.manual_seed(4)
    mask = process_mask(x, 0.3)
    torch.manual_seed(4)
    drawn = torch.empty(8, dtype=torch.int64).random_(-(2**63), None)  # 30 elements, 4 of each number
    stream = b"".join(int(number).to_bytes(8, "little", signed=True) for number in drawn)
    dropped = 19661  # 0.3 * 65,536 = 19,660.8
    for index, found in enumerate(mask.flatten().tolist()):
        value = int.from_bytes(stream[2 * index : 2 * index + 2], "little", signed=True) + 32768
        assert found == pytest.approx(65536 / (65536 - dropped) if value >= dropped else 0.0)


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.5, 0.9])
def test_masks_are_independent_of_the_rate_and_unbiased(rate: float) -> None:
    torch.manual_seed(0)
    masks = torch.stack([process_mask(torch.ones(100, 40, 50), rate) for _ in range(3)]).double()
    count = masks.numel()
    spread = math.sqrt(rate * (1 - rate) / count)
    dropped = (masks == 0).double()
    assert dropped.mean().item() == pytest.approx(rate, abs=5 * spread + 2**-17)
    assert masks.mean().item() == pytest.approx(1, abs=5 * spread / (1 - rate))
    for other in (dropped.roll(1, 0), dropped.roll(1, 1), dropped.roll(1, 2), dropped.roll(1, 3)):
        assert (dropped * other).mean().item() == pytest.approx(rate**2, abs=8 * rate / math.sqrt(count))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_shape_dtype_and_extreme_rates(dtype: torch.dtype) -> None:
    x = torch.randn(4, 6).to(dtype).t()  # not contiguous
    assert process_mask(x, 0.1).dtype == dtype
    assert torch.equal(x * process_mask(x, 0.0), x)
    assert torch.equal(x * process_mask(x, 1.0), x * 0)
    assert process_mask(x[:0], 0.5).shape == (0, 4)


def test_the_gradient_of_a_dropped_layer() -> None:
    """Finite differences, in which the masks stay."""
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)

    def dropped(values: Tensor) -> Tensor:
        torch.manual_seed(3)
        with drawing(ProcessDropout()):
            return F.dropout(values, 0.5).square()

    assert torch.autograd.gradcheck(dropped, x)


def gradients(encoder: SentenceEncoder, recompute: bool = False) -> tuple[Tensor, dict[str, Tensor]]:
    torch.manual_seed(6)
    rows = encoder.prepare(60, training=True)(SENTENCES, [None] * 2)
    encoder.zero_grad()
    vectors = encoder.pool_rows(rows, recompute)
    (vectors * torch.linspace(-1, 1, vectors.shape[1])).square().sum().backward()
    return vectors.detach(), {name: p.grad for name, p in encoder.named_parameters() if p.grad is not None}


def test_checkpoints_draw_the_same_masks() -> None:
    encoder = tiny_bert(dropout=0.3).train()
    vectors, gradient = gradients(encoder)
    micro_vectors, micro = gradients(encoder, recompute=True)
    encoder.checkpoint_layers()
    encoder.train()
    layer_vectors, layers = gradients(encoder)
    assert torch.equal(micro_vectors, vectors)
    assert torch.equal(layer_vectors, vectors)
    for name, value in gradient.items():
        assert torch.equal(micro[name], value), name
        assert torch.allclose(layers[name], value, atol=1e-6), name
    torch.manual_seed(7)
    rows = encoder.prepare(60, training=True)(SENTENCES, [None] * 2)
    assert not torch.allclose(encoder.pool_rows(rows).detach(), vectors, atol=1e-2)


@pytest.mark.parametrize("recompute", [False, True])
def test_lora_repeats_its_mask_in_the_backward_pass(recompute: bool) -> None:
    """peft's own layers keep the mask; ours draw it again."""

    def decoder() -> SentenceEncoder:
        adapter = LoraConfig(target_modules=["q_proj", "v_proj"], lora_dropout=0.3, init_lora_weights=False)
        torch.manual_seed(0)
        backbone = tiny("llama", attention_dropout=0.2)
        return SentenceEncoder(
            backbone, character_tokenizer(), pooling="last_token", max_length=32, adapter=adapter
        ).train()

    kept = decoder()
    repeated = decoder()
    save_inputs_once(repeated)
    vectors, gradient = gradients(kept)
    again, found = gradients(repeated, recompute)
    assert torch.equal(again, vectors)
    assert gradient
    for (name, value), other in zip(gradient.items(), found.values(), strict=True):
        assert torch.allclose(other, value, atol=1e-6), name


def test_what_draws() -> None:
    cpu = torch.device("cpu")
    with dropout_of(None, cpu):
        assert draws_fast()
        x = torch.ones(4, 3)
        assert F.dropout(x, 0.5, training=False) is x
    with dropout_of(torch.arange(2), cpu):
        assert not draws_fast()
    with dropout_of(None, torch.device("cuda")):
        assert not draws_fast()
    assert not draws_fast()
    assert ExampleDropout(torch.arange(2), 3).again().calls == 3
