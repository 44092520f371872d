"""Exports against the libraries that read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.errors import CheckpointError, ConfigError
from sts_lightning.export.export import export
from tests.export.helpers import DECODER, Config, trained


def test_what_has_no_form_is_refused(config: Config, tmp_path: Path) -> None:
    trained(tmp_path / "run", config, *DECODER, "model.bidirectional_layers=1", "prompt.layer=-2")
    with pytest.raises(ConfigError, match=r"no form for prompt.layer=-2, model.bidirectional_layers=1"):
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
