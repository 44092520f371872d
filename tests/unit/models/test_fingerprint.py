"""The hash of what decides an encoder's vectors."""

from __future__ import annotations

import torch

from sts_lightning.evaluation.vector_cache import fingerprint
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert


def test_equal_encoders() -> None:
    first, second = tiny_bert(dropout=0.0), tiny_bert(dropout=0.0)
    assert fingerprint(first) == fingerprint(second)
    assert fingerprint(first.train()) == fingerprint(second.eval())
    second.tokenizer.max_length = 5  # cuts in training alone
    assert fingerprint(first) == fingerprint(second)
    second.encode(["a short text", "a longer text, which is cut"])  # the tokenizer remembers how
    assert fingerprint(first) == fingerprint(second)


def changed_weight(encoder: SentenceEncoder) -> None:
    with torch.no_grad():
        next(iter(encoder.parameters())).view(-1)[7] += 1e-3


def changed_cut(encoder: SentenceEncoder) -> None:
    encoder.tokenizer.set_evaluation_length(9)


def changed_size(encoder: SentenceEncoder) -> None:
    encoder.truncate_dim = 5


def changed_edit(encoder: SentenceEncoder) -> None:
    encoder.text_edit = "prompt_bert"


def changed_tokenizer(encoder: SentenceEncoder) -> None:
    encoder.tokenizer.tokenizer.add_tokens(["guitar"])


def changed_precision(encoder: SentenceEncoder) -> None:
    encoder.set_precision("bf16-true")


def changed_configuration(encoder: SentenceEncoder) -> None:
    encoder.plain_backbone.config.layer_norm_eps = 1e-3


def test_what_changes_vectors_changes_the_hash() -> None:
    settings: list[dict[str, object]] = [
        {},
        {"pooling": "cls"},
        {"layer": -2},
        {"projection": "always"},
        {"normalize": True},
        {"template": "so: {sentence}"},
        {"template": "so: {sentence}", "denoise": "pad", "denoise_evaluation": True},
        {"layers": 1},
        {"weights_seed": 1},
    ]
    found = [fingerprint(tiny_bert(**chosen)) for chosen in settings]  # type: ignore[arg-type]
    for change in (
        changed_weight,
        changed_cut,
        changed_size,
        changed_edit,
        changed_tokenizer,
        changed_precision,
        changed_configuration,
    ):
        encoder = tiny_bert()
        change(encoder)
        found.append(fingerprint(encoder))
    assert len(set(found)) == len(found)
