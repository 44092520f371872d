from __future__ import annotations

from typing import Any

import pytest
import torch
from peft import LoraConfig

from sts_lightning.core.choices import Quantization
from sts_lightning.losses.infonce import InfoNCELoss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.papers.auxiliary.momentum_queue import MomentumQueue, PaperCodeMomentumQueue
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.tiny_decoders import tiny_mistral
from sts_lightning.training.module import STSModule


def connected(
    encoder: SentenceEncoder, size: int, momentum: float, kind: type[MomentumQueue] = MomentumQueue
) -> MomentumQueue:
    queue = kind(size, momentum)
    queue.connect(encoder)
    return queue


def test_keeps_the_latest_vectors_oldest_first() -> None:
    encoder = tiny_bert(dropout=0.5)
    queue = connected(encoder, size=5, momentum=0.9).train()
    assert queue.negatives().shape == (0, 32)
    seen = []
    for texts in (["a", "b"], ["c", "d"], ["e", "f", "g"]):
        queue.push(queue.embed(encoder.tokenizer.rows(texts, 512)))
        seen += texts
        expected = encoder.encode(seen[-5:])  # the weights have not moved; no dropout in either
        torch.testing.assert_close(queue.negatives(), torch.from_numpy(expected), atol=1e-5, rtol=1e-4)


def test_follows_the_encoder() -> None:
    encoder = tiny_bert()
    queue = connected(encoder, size=2, momentum=0.75)
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
    queue = connected(encoder, size=1, momentum=0.9).train()
    queue.push(queue.embed(encoder.tokenizer.rows(["abc"], 512)))
    projected = encoder.projector(torch.from_numpy(encoder.encode(["abc"])))
    torch.testing.assert_close(queue.negatives(), projected.detach(), atol=1e-5, rtol=1e-4)


def test_refuses() -> None:
    with pytest.raises(ValueError, match="size must be"):
        MomentumQueue(0, 0.9)
    with pytest.raises(ValueError, match=r"momentum must lie in \[0, 1\)"):
        MomentumQueue(4, 1.0)
    with pytest.raises(ValueError, match="projection=batch_norm"):
        connected(tiny_bert(projection="batch_norm"), 4, 0.9)


@pytest.mark.parametrize("quantization", ["4bit", "8bit"])
def test_a_quantised_encoder_is_followed_in_its_trained_weights(quantization: Quantization) -> None:
    adapter = LoraConfig(task_type="FEATURE_EXTRACTION", r=2, target_modules="all-linear")
    encoder = tiny_mistral(quantization=quantization, adapter=adapter)
    queue = connected(encoder, size=2, momentum=0.75)
    with torch.no_grad():
        for name, weight in encoder.named_parameters():
            if "lora_B" in name:
                weight.add_(4.0)
    queue.follow(encoder)
    for (name, mine), theirs in zip(queue.encoder_copy.named_parameters(), encoder.parameters(), strict=True):
        expected = torch.ones_like(mine) if "lora_B" in name else theirs
        assert torch.equal(mine, expected), name


def test_the_papers_code_starts_from_random_weights() -> None:
    encoder = tiny_bert(dropout=0.0, projection="train", weights_seed=7)
    state = torch.get_rng_state()
    queue, again = (connected(encoder, 2, 0.75, PaperCodeMomentumQueue) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    copied, other = queue.encoder_copy.state_dict(), again.encoder_copy.state_dict()
    for name, weight in encoder.state_dict().items():
        assert torch.equal(copied[name], other[name])  # in each process
        drawn = weight.dim() > 1 and name.startswith("backbone.")
        assert torch.equal(copied[name], weight) == (not drawn), name
    name = "backbone.encoder.layer.0.output.dense.weight"
    started = copied[name].clone()
    queue.follow(encoder)
    expected = 0.75 * started + 0.25 * encoder.state_dict()[name]
    torch.testing.assert_close(queue.encoder_copy.state_dict()[name], expected)


def test_the_papers_code_projects_as_the_encoder_does_at_present() -> None:
    encoder = tiny_bert(dropout=0.0, projection="train")
    queues = [connected(encoder, 1, 0.75, kind) for kind in (PaperCodeMomentumQueue, MomentumQueue)]
    with torch.no_grad():
        encoder.projector[0].weight.add_(4.0)
    for queue, equal in zip(queues, (True, False), strict=True):
        queue.follow(encoder)
        weight = queue.encoder_copy.projector[0].weight
        assert torch.equal(weight, encoder.projector[0].weight) == equal


def test_the_papers_code_needs_all_weights_to_train() -> None:
    adapter = LoraConfig(task_type="FEATURE_EXTRACTION", r=2, target_modules="all-linear")
    with pytest.raises(ValueError, match="whose weights all train"):
        connected(tiny_mistral(adapter=adapter), 2, 0.9, PaperCodeMomentumQueue)


def test_checkpoints_leave_out_what_the_copy_has_in_common_with_the_model() -> None:
    adapter = LoraConfig(task_type="FEATURE_EXTRACTION", r=2, target_modules="all-linear")
    encoder = tiny_mistral(quantization="4bit", dtype="float32", hidden_size=64, adapter=adapter)
    unused: Any = None
    module = STSModule(encoder, InfoNCELoss(), unused, unused, auxiliary=connected(encoder, 4, 0.9))
    stored = module.state_dict()
    copied = {name for name in stored if name.startswith("auxiliary.encoder_copy.")}
    assert copied == {
        name.replace("encoder.", "auxiliary.encoder_copy.", 1)
        for name in stored
        if name.startswith("encoder.") and "lora" in name
    }
    assert copied
    assert {"auxiliary.vectors", "auxiliary.filled"} <= stored.keys()
