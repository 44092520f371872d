"""The hash of what decides an encoder's vectors."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig

from sts_lightning.evaluation.vector_cache import fingerprint
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.support.families import tiny, write


def test_equal_encoders() -> None:
    first, second = tiny_bert(dropout=0.0), tiny_bert(dropout=0.0)
    assert fingerprint(first) == fingerprint(second)
    assert fingerprint(first.train()) == fingerprint(second.eval())
    second.tokenizer.lengths = replace(second.tokenizer.lengths, train=5)  # cuts in training alone
    assert fingerprint(first) == fingerprint(second)
    second.encode(["a short text", "a longer text, which is cut"])  # the tokenizer remembers how
    assert fingerprint(first) == fingerprint(second)


def changed_weight(encoder: SentenceEncoder) -> None:
    with torch.no_grad():
        next(iter(encoder.parameters())).view(-1)[7] += 1e-3


def changed_cut(encoder: SentenceEncoder) -> None:
    encoder.set_evaluation(max_length=9)


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
        {"truncate_dim": 5},
        {"text_edit": "prompt_bert"},
        {"layers": 1},
        {"weights_seed": 1},
    ]
    found = [fingerprint(tiny_bert(**chosen)) for chosen in settings]  # type: ignore[arg-type]
    for change in (
        changed_weight,
        changed_cut,
        changed_tokenizer,
        changed_precision,
        changed_configuration,
    ):
        encoder = tiny_bert()
        change(encoder)
        found.append(fingerprint(encoder))
    assert len(set(found)) == len(found)


def test_the_scale_of_an_adapter_changes_the_hash() -> None:
    """The weights are the same, and the vectors are not."""

    def adapted(**settings: object) -> SentenceEncoder:
        torch.manual_seed(0)
        lora = LoraConfig(  # random weights: an adapter that begins at zero has no effect
            task_type="FEATURE_EXTRACTION",
            target_modules=["query", "value"],
            r=4,
            init_lora_weights=False,
            **settings,
        )
        return tiny_bert(adapter=lora)

    same, other = adapted(lora_alpha=8), adapted(lora_alpha=8)
    assert fingerprint(same) == fingerprint(other)
    changed = [adapted(lora_alpha=16), adapted(lora_alpha=8, use_rslora=True)]
    assert len({fingerprint(encoder) for encoder in [same, *changed]}) == 3
    vectors = [encoder.encode(["a dog ran"]) for encoder in [same, *changed]]
    assert all(np.abs(one - vectors[0]).max() > 1e-3 for one in vectors[1:])


def test_code_of_a_model_of_its_own_changes_the_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "layer_of_a_model.py"
    file.write_text("from torch import nn\n\n\nclass Layer(nn.Identity):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    encoder, same = tiny_bert(), tiny_bert()
    for each in (encoder, same):
        each.plain_backbone.pooler = importlib.import_module(file.stem).Layer()
    before = fingerprint(encoder)
    assert fingerprint(same) == before != fingerprint(tiny_bert())
    file.write_text(file.read_text().replace("Identity", "ReLU"))
    assert fingerprint(encoder) != before


def test_the_name_of_the_folder_does_not(tmp_path: Path) -> None:
    folders = [Path(write(tiny("bert"), tmp_path / "first")), tmp_path / "moved"]
    encoders = [SentenceEncoder.from_pretrained(str(folders[0]))]
    folders[0].rename(folders[1])
    encoders.append(SentenceEncoder.from_pretrained(str(folders[1])))
    names = {encoder.plain_backbone.config._name_or_path for encoder in encoders}
    assert names == {str(folder) for folder in folders}
    assert fingerprint(encoders[0]) == fingerprint(encoders[1])
