"""Code in the files of a model that a run folder names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sts_lightning.core.errors import ConfigError
from sts_lightning.export.export import export
from tests.support.run_changes import model_folder, of_that_folder, set_at
from tests.support.run_entries import ENTRIES, edit


def test_an_export_names_no_code_of_the_model_folder(run: Path, marker: Path, tmp_path: Path) -> None:
    """A template's folder is loaded with trust_remote_code, which would run it."""
    model_folder(run / "model", marker)
    edit(run / "config.yaml", of_that_folder(run / "model", trust_remote_code=False))
    edit(run / "config.yaml", set_at("prompt.template", "A {sentence} b"))
    for format_ in ("merged", "sentence-transformers"):
        export(run, tmp_path / format_, format_)  # type: ignore[arg-type]
    written = [path for path in tmp_path.glob("*/**/*.json") if run not in path.parents]
    assert {"config.json", "tokenizer_config.json", "modules.json"} <= {path.name for path in written}
    assert [path for path in written if "auto_map" in path.read_text()] == []
    assert not marker.exists()


def test_a_kernel_in_the_files_of_a_model(run: Path, marker: Path, tmp_path: Path) -> None:
    model_folder(run / "model", marker)
    path = run / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"_attn_implementation": "org/kernel"}))
    edit(run / "config.yaml", of_that_folder(run / "model"))
    with pytest.raises(ConfigError, match="org/kernel"):
        ENTRIES["load"](run, tmp_path / "out")
