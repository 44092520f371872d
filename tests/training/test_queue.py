from __future__ import annotations

import pytest
import torch
from peft import LoraConfig

from sts_lightning.choices import Quantization
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.tiny_decoders import tiny_mistral
from sts_lightning.training.queue import MomentumQueue


def test_keeps_the_latest_vectors_oldest_first() -> None:
    encoder = tiny_bert(dropout=0.5)
    queue = MomentumQueue(encoder, size=5, momentum=0.9).train()
    assert queue.negatives().shape == (0, 32)
    seen = []
    for texts in (["a", "b"], ["c", "d"], ["e", "f", "g"]):
        queue.push(queue.embed(encoder.tokenizer.rows(texts, 512)))
        seen += texts
        expected = encoder.encode(seen[-5:])  # the weights have not moved; no dropout in either
        torch.testing.assert_close(queue.negatives(), torch.from_numpy(expected), atol=1e-5, rtol=1e-4)


def test_follows_the_encoder() -> None:
    encoder = tiny_bert()
    queue = MomentumQueue(encoder, size=2, momentum=0.75)
    name, weight = next(iter(encoder.named_parameters()))
    before = weight.detach().clone()
    with torch.no_grad():
        weight.add_(4.0)
    queue.follow(encoder)
    copied = dict(queue.encoder_copy.named_parameters())[name]
    torch.testing.assert_close(copied, before + 1.0)
    assert not copied.requires_grad


def test_its_vectors_are_projected_as_in_training() -> None:
    encoder = tiny_bert(dropout=0.0, projection="train")
    queue = MomentumQueue(encoder, size=1, momentum=0.9).train()
    queue.push(queue.embed(encoder.tokenizer.rows(["abc"], 512)))
    projected = encoder.projector(torch.from_numpy(encoder.encode(["abc"])))
    torch.testing.assert_close(queue.negatives(), projected.detach(), atol=1e-5, rtol=1e-4)


def test_refuses() -> None:
    with pytest.raises(ValueError, match="size must be positive"):
        MomentumQueue(tiny_bert(), 0, 0.9)
    with pytest.raises(ValueError, match=r"momentum must lie in \[0, 1\)"):
        MomentumQueue(tiny_bert(), 4, 1.0)


@pytest.mark.parametrize("quantization", ["4bit", "8bit"])
def test_a_quantised_encoder_is_followed_in_its_trained_weights(quantization: Quantization) -> None:
    adapter = LoraConfig(task_type="FEATURE_EXTRACTION", r=2, target_modules="all-linear")
    encoder = tiny_mistral(quantization=quantization, adapter=adapter)
    queue = MomentumQueue(encoder, size=2, momentum=0.75)
    with torch.no_grad():
        for name, weight in encoder.named_parameters():
            if "lora_B" in name:
                weight.add_(4.0)
    queue.follow(encoder)
    for (name, mine), theirs in zip(queue.encoder_copy.named_parameters(), encoder.parameters(), strict=True):
        expected = torch.ones_like(mine) if "lora_B" in name else theirs
        assert torch.equal(mine, expected), name
