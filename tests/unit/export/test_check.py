"""Exports that are compared with the run before they appear."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import peft
import pytest
import torch
from peft import LoraConfig

from sts_lightning.core.choices import ExportFormat
from sts_lightning.core.errors import CheckpointError
from sts_lightning.data.module import DataModule
from sts_lightning.data.rows import labels_file, triplets_file
from sts_lightning.export.check import check, expect, texts_of
from sts_lightning.export.export import FORMATS as TABLE
from sts_lightning.models.encoder import Base, SentenceEncoder
from sts_lightning.models.same_vectors import PROBES
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.tiny_decoders import tiny_llama, tiny_mistral
from sts_lightning.workflows.report import sample_texts
from tests.support.sentences import DOCUMENTS, QUERIES

FORMATS: list[ExportFormat] = ["sentence-transformers", "merged", "onnx", "adapter"]
ROLES: dict[str, Any] = {"query": "query: ", "document": "passage: "}


def with_adapter(folder: Path, **settings: Any) -> SentenceEncoder:
    """An encoder with an adapter that changes vectors, on a base that is a folder."""
    base = tiny_bert(weights_seed=3)
    base.plain_backbone.save_pretrained(folder / "base")
    base.tokenizer.tokenizer.save_pretrained(folder / "base")
    encoder = tiny_bert(
        weights_seed=3, adapter=LoraConfig(target_modules=["value"], init_lora_weights=False), **settings
    )
    encoder.base = Base(str(folder / "base"))
    return encoder


def checked(encoder: SentenceEncoder, format_: ExportFormat, folder: Path, change: float = 1.0) -> Any:
    """Write an export and check it, after a weight was multiplied in between."""
    expected = expect(encoder, QUERIES, DOCUMENTS, TABLE[format_].bare)
    with torch.no_grad():
        weights = dict(encoder.backbone.named_parameters())
        name = next((name for name in weights if "lora_A" in name), "") or next(
            name for name in weights if name.endswith(("value.weight", "v_proj.weight"))
        )
        weights[name].mul_(change)
    (folder / "out").mkdir()
    TABLE[format_].write(encoder, folder / "out")
    config = replace(encoder.config, evaluation_length=encoder.tokenizer.lengths.eval)
    return check(folder / "out", TABLE[format_], config, expected)


CASES: dict[str, tuple[Callable[..., SentenceEncoder], dict[str, Any]]] = {
    "roles": (tiny_bert, {**ROLES, "max_length": 60}),
    "roles and a template": (tiny_bert, {**ROLES, "template": "t: {sentence}", "normalize": True}),
    "one role": (tiny_bert, {"query": "query: ", "template": "t: {sentence}", "pooling": "cls"}),
    "template": (tiny_bert, {"template": "say: {sentence} .", "max_length": 20, "truncate_dim": 9}),
    "decoder": (tiny_llama, {"template": "say: {sentence} .", "pooling": "last_token"}),
}


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("format_", FORMATS[:3])
def test_the_vectors_of_an_export_are_those_of_the_run(
    format_: ExportFormat, case: str, tmp_path: Path
) -> None:
    make, settings = CASES[case]
    found = checked(make(**settings), format_, tmp_path)
    assert found["difference"] < 1e-5
    assert found["texts"] == 11  # with a long one


def test_the_vectors_of_an_adapter_are_those_of_the_run(tmp_path: Path) -> None:
    found = checked(with_adapter(tmp_path, **ROLES, projection="always"), "adapter", tmp_path)
    assert found == {"library": "peft", "version": peft.__version__, "texts": 11} | {
        "difference": found["difference"]
    }
    assert 0 <= found["difference"] < 1e-5


@pytest.mark.parametrize(
    "settings",
    [
        {"pooling": "first_last_mean"},
        {"layer": -2},
        {"template": "{mask} : {sentence} .", "pooling": "mask_token"},
        {"template": "{mask} : {sentence} .", "denoise": "pad", "denoise_evaluation": True},
        {"projection": "always"},
    ],
)
def test_a_merged_model_is_pooled_by_its_settings(settings: dict[str, Any], tmp_path: Path) -> None:
    assert checked(tiny_bert(**settings), "merged", tmp_path)["difference"] < 1e-5


def test_a_merged_model_whose_layers_are_bidirectional(tmp_path: Path) -> None:
    encoder = tiny_mistral(bidirectional_layers=1, pooling="mean")
    assert checked(encoder, "merged", tmp_path)["difference"] < 1e-5


@pytest.mark.parametrize("format_", FORMATS)
def test_another_weight_is_noticed(format_: ExportFormat, tmp_path: Path) -> None:
    encoder = with_adapter(tmp_path, **ROLES)
    with pytest.raises(CheckpointError, match=r"not those of the run: they differ by \d.*e-\d+ of their len"):
        checked(encoder, format_, tmp_path, change=3.0)


def test_a_prompt_that_is_lost_is_noticed(tmp_path: Path) -> None:
    """The largest difference is that of a query, whose prompt the folder has not."""
    encoder = tiny_bert(**ROLES)
    expected = expect(encoder, QUERIES, DOCUMENTS, bare=False)
    TABLE["sentence-transformers"].write(encoder, tmp_path)
    file = tmp_path / "config_sentence_transformers.json"
    settings = json.loads(file.read_text())
    assert settings["prompts"] == ROLES
    settings["prompts"]["query"] = ""
    file.write_text(json.dumps(settings))
    with pytest.raises(CheckpointError, match=r"most for the query '"):
        check(tmp_path, TABLE["sentence-transformers"], encoder.config, expected)


def test_nan_is_no_small_difference(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="differ by nan"):
        checked(tiny_bert(), "sentence-transformers", tmp_path, change=float("nan"))


def test_a_base_inside_the_folder_is_read(tmp_path: Path) -> None:
    encoder = tiny_mistral(pooling="last_token", adapter=LoraConfig(r=2, init_lora_weights=False))
    assert encoder.base is not None
    assert encoder.base.name is None
    assert checked(encoder, "adapter", tmp_path)["difference"] < 1e-5


def test_a_base_that_is_not_here_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    encoder = with_adapter(tmp_path)
    (tmp_path / "base" / "model.safetensors").unlink()
    with caplog.at_level(logging.WARNING):
        assert checked(encoder, "adapter", tmp_path) is None
    assert "was not compared with the run in peft: its base" in caplog.text


def test_the_run_is_as_it_was_after_the_comparison() -> None:
    encoder = tiny_bert(projection="always", template="a {sentence}", denoise="pad", denoise_evaluation=True)
    before = encoder.encode(QUERIES)
    expect(encoder, QUERIES, DOCUMENTS, bare=True)
    np.testing.assert_array_equal(encoder.encode(QUERIES), before)


def test_the_texts_are_those_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "qa.csv").write_text("anchor,positive\n" + "".join(f"q{i},a{i}\n" for i in range(60)))
    (tmp_path / "intents.csv").write_text("text,label\n" + "".join(f"t{i},{i % 3}\n" for i in range(60)))
    pairs = DataModule(triplets_file(str(tmp_path), str(tmp_path / "qa.csv"), dev_fraction=0.1))
    classes = DataModule(labels_file(str(tmp_path), str(tmp_path / "intents.csv"), dev_fraction=0.1))
    pairs.setup()
    classes.setup()
    details: dict[str, Any] = {}
    run: Any = SimpleNamespace(metrics=lambda: SimpleNamespace(details=details))
    assert texts_of(run) == (PROBES, PROBES)
    details["texts"] = sample_texts(pairs)
    queries, documents = texts_of(run)
    assert [text.replace("q", "a") for text in queries] == documents
    assert len(set(queries)) == 5
    first, second = sample_texts(classes).values()
    assert len({*first, *second}) == 10  # the second column is drawn
