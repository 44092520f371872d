"""Where a pipeline is read from, and what is said where it is not used."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from sts_lightning.errors import ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.model_files import ModelFiles
from sts_lightning.models.pipeline_files import OWN_FILE, read_pipeline
from tests.models.families import tiny, write
from tests.models.st_folders import st_folder


def test_a_model_without_one(tmp_path: Path) -> None:
    assert read_pipeline(ModelFiles(write(tiny("bert"), tmp_path))) is None


EXPORTED: dict[str, Any] = {
    "pooling": "last_token",
    "template": "it : {sentence} .",
    "max_length": 40,
    "layer": -2,
    "bidirectional_layers": 1,
    "projection": "train",
    "denoise_evaluation": False,
    "text_edit": "official",
}


def test_an_export(tmp_path: Path) -> None:
    (tmp_path / OWN_FILE).write_text(json.dumps(EXPORTED))
    found = read_pipeline(ModelFiles(str(tmp_path)))
    assert found is not None
    assert (found.pooling, found.template, found.layer) == ("last_token", "it : {sentence} .", -2)
    assert (found.sentence_tokens, found.row_tokens) == (40, None)
    assert (found.bidirectional_layers, found.text_edit, found.dense) == (1, "official", ())
    (tmp_path / OWN_FILE).write_text(json.dumps({**EXPORTED, "template": None}))
    bare = read_pipeline(ModelFiles(str(tmp_path)))
    assert bare is not None
    assert (bare.sentence_tokens, bare.row_tokens) == (None, 40)


@pytest.mark.parametrize("lost", [{"projection": "always"}, {"denoise_evaluation": True}])
def test_an_export_without_all_of_the_run(lost: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / OWN_FILE).write_text(json.dumps(EXPORTED | lost))
    with pytest.raises(ConfigError, match=next(iter(lost))) as caught:
        read_pipeline(ModelFiles(str(tmp_path)))
    assert caught.value.key == "model.name"


def test_a_pipeline_that_is_not_used_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, _ = st_folder(
        tmp_path, pooling="cls", dense=((8, nn.Tanh()),), prompts={"a": "one "}, default_prompt_name="a"
    )
    with caplog.at_level(logging.WARNING, "sts_lightning"):
        SentenceEncoder.from_pretrained(folder, pooling="mean")
    (record,) = [record for record in caplog.records if record.name.startswith("sts_lightning")]
    for part in ("cls", "dense", "'one '", "model=encoder"):
        assert part in record.getMessage()
    caplog.clear()
    SentenceEncoder.from_pretrained(folder, pooling="cls", projection="train", template="it : {sentence}")
    assert [record for record in caplog.records if record.name.startswith("sts_lightning")] == []
