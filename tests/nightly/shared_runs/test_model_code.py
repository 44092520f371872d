"""Code in the files of a model that a run folder names."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.core.errors import UntrustedError
from tests.support.run_changes import model_folder, of_that_folder, set_at
from tests.support.run_entries import ENTRIES, edit


@pytest.mark.parametrize("entry", list(ENTRIES))
@pytest.mark.parametrize("group", ["model", "prompt"])
def test_code_that_comes_with_a_model(
    group: str, entry: str, run: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    model_folder(run / "model", marker)
    edit(run / "config.yaml", of_that_folder(run / "model"))
    edit(run / "config.yaml", set_at(f"{group}.trust_remote_code", True))
    with pytest.raises(UntrustedError, match=r"trust_remote_code: True \(code that comes with the model\)"):
        ENTRIES[entry](run, tmp_path / "out")
    assert not marker.exists()
