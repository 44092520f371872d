"""Exports against the libraries that read them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError

from sts_lightning.core.choices import ExportFormat
from sts_lightning.core.errors import CheckpointError, ConfigError, StorageError
from sts_lightning.export.export import FORMATS, export
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.workflows.start import train_in
from tests.support.exports import DECODER, STEPS, Config, trained


def test_what_has_no_form_is_refused(config: Config, tmp_path: Path) -> None:
    trained(tmp_path / "run", config, *DECODER, "model.bidirectional_layers=1", "prompt.layer=-2")
    with pytest.raises(ConfigError, match=r"cannot represent layer=-2, bidirectional_layers=1"):
        export(tmp_path / "run", tmp_path / "out", "sentence-transformers")
    assert not (tmp_path / "out").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    trained(tmp_path / "bert", config)
    with pytest.raises(CheckpointError, match="has no adapter; use --format merged"):
        export(tmp_path / "bert", tmp_path / "out", "adapter")
    with pytest.raises(CheckpointError, match="none is not a run folder"):
        export(tmp_path / "none", tmp_path / "out", "adapter")
    (tmp_path / "out").mkdir()
    with pytest.raises(ConfigError, match="exists already"):
        export(tmp_path / "bert", tmp_path / "out", "merged")


def test_weights_that_cannot_be_written_leave_nothing(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*arguments: object) -> None:
        raise SafetensorError("I/O error: File too large (os error 27)")

    trained(tmp_path / "run", config)
    monkeypatch.setitem(FORMATS, "merged", replace(FORMATS["merged"], write=full_disk))
    with pytest.raises(StorageError, match=r"out: its weights cannot be written .*too large"):
        export(tmp_path / "run", tmp_path / "out", "merged")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


ROWS = "query,answer\n" + "".join(f"who {name}?,{name} did it {name}\n" for name in "abcdefghij")


@pytest.mark.parametrize("format_", ["sentence-transformers", "merged", "onnx"])
def test_an_export_with_other_vectors_leaves_no_folder(
    format_: ExportFormat, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "qa.csv").write_text(ROWS)
    (tmp_path / "dev.csv").write_text("sentence1,sentence2,score\na b,a c,0.9\nb c,d e,0.1\nf g,f f,0.6\n")
    data = ["data=triplets_file", "data.columns=[query,answer]", f"path={tmp_path / 'qa.csv'}"]
    data += [f"data.dev_path={tmp_path / 'dev.csv'}", "loss=infonce", "evaluation.final=false"]
    prompts = ["prompt.query='q: '", "prompt.document='d: '"]
    train_in(tmp_path / "run", config("model=tiny_bert", *data, *prompts, *STEPS))
    export(tmp_path / "run", tmp_path / "out", format_)
    checked = json.loads((tmp_path / "out" / "sts_lightning.json").read_text())["checked"]
    assert checked["difference"] < 1e-4
    assert checked["texts"] in (10, 11)
    write = FORMATS[format_].write

    def wrong(encoder: SentenceEncoder, *arguments: Any) -> None:
        with torch.no_grad():
            encoder.plain_backbone.get_input_embeddings().weight.mul_(1.1)
        write(encoder, *arguments)

    monkeypatch.setitem(FORMATS, format_, replace(FORMATS[format_], write=wrong))
    # The texts are those of the run, as far as it can read them.
    said = r"they differ by .* most for the (text|query|document) '(who .\?|. did it .|The hills)"
    with pytest.raises(CheckpointError, match=said):
        export(tmp_path / "run", tmp_path / "wrong", format_)
    (tmp_path / "qa.csv").unlink()
    with pytest.raises(CheckpointError, match="they differ by"):
        export(tmp_path / "run", tmp_path / "wrong", format_)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev.csv", "out", "run"]
