from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch

from sts_lightning.data.collate import Batch
from sts_lightning.papers.auxiliary.masked_lm import (
    MaskedLanguageModel,
    PaperCodeMaskedLanguageModel,
    mask_words,
    row_keys,
)
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.tiny_decoders import tiny_llama
from sts_lightning.training.auxiliary.base import Step
from tests.support.training_steps import step_alone

TEXTS = ["a dog runs", "seven cats on a mat", "yes"]


def made(
    kind: type[MaskedLanguageModel] = MaskedLanguageModel, **arguments: Any
) -> tuple[Any, MaskedLanguageModel]:
    encoder = tiny_bert(dropout=0.0, pooling="cls", layers=3)
    auxiliary = kind(**{"lower_layers": 1, "layers": 2, "mask_rate": 0.5, **arguments})
    torch.manual_seed(3)
    auxiliary.connect(encoder)
    return encoder, auxiliary


def step(encoder: Any, chunk_tokens: int = 1000, recompute: bool = False) -> Step:
    rows = encoder.prepare(chunk_tokens, training=True)([TEXTS, TEXTS[::-1]], [None, None])
    pooled = encoder(rows, 0 if recompute else None, project=False)
    return step_alone(encoder, Batch(rows, 2, None, 3), pooled, recompute)


@pytest.mark.parametrize("chunk_tokens", [1000, 24])
def test_equals_one_sentence_at_a_time_without_padding(chunk_tokens: int) -> None:
    """Against the layers called one by one, and the probabilities by hand."""
    encoder, auxiliary = made()
    value = auxiliary(step(encoder, chunk_tokens))
    given = step(encoder)
    model, total, count = encoder.backbone, 0.0, 0
    for chunk in given.rows.chunks:
        keys = row_keys(0, 0, 0, 2, range(3))[torch.argsort(given.rows.inverse_order)]
        masked, chosen = mask_words(
            chunk["input_ids"], auxiliary.special, auxiliary.mask_id, auxiliary.words, 0.5, keys
        )
        for ids, changed, where, length in zip(
            chunk["input_ids"], masked, chosen, chunk["attention_mask"].sum(dim=1).tolist(), strict=True
        ):
            with torch.no_grad():
                whole = model(input_ids=ids[None, :length]).last_hidden_state[:, :1]
                states = model.encoder.layer[0](model.embeddings(input_ids=changed[None, :length]))
                states = torch.cat([whole, states[:, 1:]], dim=1)
                for layer in model.encoder.layer[1:]:
                    states = layer(states)
                words = model.embeddings.word_embeddings.weight
                scores = auxiliary.transform(states[0]) @ words.T + auxiliary.bias
            for place in where.nonzero().flatten().tolist():
                row = scores[place].tolist()
                total += math.log(sum(map(math.exp, row))) - row[ids[place]]
                count += 1
    assert count > 0
    assert value.item() == pytest.approx(total / count, rel=1e-5)


def test_it_reaches_the_encoder_through_the_vector_alone() -> None:
    encoder, auxiliary = made()
    given = step(encoder)
    given.pooled.retain_grad()
    auxiliary(given).backward()
    assert given.pooled.grad is not None
    assert bool((given.pooled.grad.norm(dim=1) > 0).all())
    assert all(parameter.grad is None for parameter in auxiliary.lower.parameters())
    trained = [*auxiliary.upper.parameters(), *auxiliary.transform.parameters(), auxiliary.bias]
    assert all(parameter.grad is not None for parameter in trained)


def test_recomputation_changes_nothing() -> None:
    gradients = []
    for recompute in (False, True):
        encoder, auxiliary = made()
        auxiliary(step(encoder, 24, recompute)).backward()
        gradients.append([p.grad.clone() for p in auxiliary.upper.parameters() if p.grad is not None])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_the_lower_layers_keep_their_start() -> None:
    encoder, auxiliary = made()
    before = copy.deepcopy(auxiliary.lower.state_dict())
    auxiliary.train()
    assert not auxiliary.lower.training
    assert auxiliary.upper.training
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(1.0)
    for name, value in auxiliary.lower.state_dict().items():
        assert torch.equal(value, before[name])


def test_the_masked_words_of_a_seed_step_and_example_stay() -> None:
    keys = row_keys(7, 1, 3, 2, range(2, 4))
    assert keys.tolist() == [
        3895836571203274571,
        1154831742032578340,
        -917217310072996302,
        6113983487529236622,
    ]
    masked, _ = mask_words(torch.arange(10, 34).view(4, 6), [1, 2], 9, 100, 0.4, keys)
    assert masked[0].tolist() == [9, 11, 12, 13, 14, 15]
    assert masked[2].tolist() == [22, 9, 24, 9, 9, 12]


def test_masked_words() -> None:
    torch.manual_seed(0)
    ids = torch.randint(10, 100, (200, 50))
    ids[:, 0], ids[:, -1] = 1, 2
    keys = row_keys(0, 0, 0, 1, range(200))
    masked, chosen = mask_words(ids, [1, 2], 9, 100, 0.4, keys)
    for part in (slice(30), slice(7, 9)):
        again = mask_words(ids[part, :20], [1, 2], 9, 100, 0.4, keys[part])
        assert torch.equal(again[0], masked[part, :20])
        assert torch.equal(again[1], chosen[part, :20])
    other = mask_words(ids, [1, 2], 9, 100, 0.4, row_keys(0, 0, 1, 1, range(200)))
    assert (other[1] == chosen).float().mean().item() == pytest.approx(0.4**2 + 0.6**2, abs=0.04)
    assert not chosen[:, 0].any()
    assert not chosen[:, -1].any()
    assert torch.equal(masked[~chosen], ids[~chosen])
    inner = chosen[:, 1:-1]
    assert inner.float().mean().item() == pytest.approx(0.4, abs=0.02)
    share = (masked == 9)[chosen].float().mean().item()
    assert share == pytest.approx(0.8 + 0.1 / 100, abs=0.03)
    assert (masked == ids)[chosen].float().mean().item() == pytest.approx(0.1 + 0.1 / 100, abs=0.02)
    words = masked[chosen & (masked != ids) & (masked != 9)]
    assert words.min() >= 0
    assert words.max() < 100
    assert len(words.unique()) > 90


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lower_layers": 0}, "^lower_layers must be at least 1"),
        ({"layers": 4}, "^layers must be at most 3"),
        ({"mask_rate": 1.0}, r"^mask_rate must lie in \(0, 1\)"),
    ],
)
def test_rejected_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(**arguments)


def test_rejected_encoders() -> None:
    auxiliary = MaskedLanguageModel(1, 1)
    with pytest.raises(ValueError, match="a model like BERT, not LlamaModel"):
        auxiliary.connect(tiny_llama())
    with pytest.raises(ValueError, match="pooling: cls"):
        auxiliary.connect(tiny_bert())


def test_the_papers_code_starts_from_random_weights_and_trains_its_output() -> None:
    encoder, auxiliary = made(PaperCodeMaskedLanguageModel)
    assert auxiliary.table is not None
    table = encoder.backbone.get_input_embeddings().weight
    assert torch.equal(auxiliary.table, table)
    for mine, theirs in zip(auxiliary.upper.layer, encoder.backbone.encoder.layer[-2:], strict=True):
        assert not torch.equal(mine.output.dense.weight, theirs.output.dense.weight)
        assert mine.output.dense.weight.std().item() == pytest.approx(0.02, rel=0.1)
    auxiliary(step(encoder)).backward()
    assert auxiliary.table.grad is not None
    assert auxiliary.table.grad.any()
    assert made()[1].table is None


def test_the_norm_is_that_of_the_model() -> None:
    encoder, auxiliary = made()
    assert auxiliary.transform[2].eps == encoder.backbone.config.layer_norm_eps == 1e-12
