"""Exports against the libraries that read them."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors import SafetensorError

from sts_lightning.core.errors import CheckpointError, ConfigError, StorageError
from sts_lightning.export.export import WRITERS, export
from tests.support.exports import DECODER, Config, trained


def test_what_has_no_form_is_refused(config: Config, tmp_path: Path) -> None:
    trained(tmp_path / "run", config, *DECODER, "model.bidirectional_layers=1", "prompt.layer=-2")
    with pytest.raises(ConfigError, match=r"cannot represent prompt.layer=-2, model.bidirectional_layers=1"):
        export(tmp_path / "run", tmp_path / "out", "sentence-transformers")
    assert not (tmp_path / "out").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    trained(tmp_path / "bert", config)
    with pytest.raises(CheckpointError, match="has no adapter; use --format merged"):
        export(tmp_path / "bert", tmp_path / "out", "adapter")
    with pytest.raises(CheckpointError, match="is not a run folder"):
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
    monkeypatch.setitem(WRITERS, "merged", full_disk)
    with pytest.raises(StorageError, match=r"out: its weights cannot be written .*too large"):
        export(tmp_path / "run", tmp_path / "out", "merged")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
