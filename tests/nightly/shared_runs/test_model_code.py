"""Code in the files of a model that a run folder names."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from sts_lightning.core.errors import UntrustedError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.folder import load_weights
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
    expected = pytest.raises(
        UntrustedError, match=r"trust_remote_code: True \(code that comes with the model"
    )
    with expected if entry in ("resume", "average") else nullcontext():
        ENTRIES[entry](run, tmp_path / "out")
    assert not marker.exists()


def test_weights_for_a_model_whose_code_is_not_run(
    run: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its configuration names code too, but the new run uses the library's class."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    for folder in (run / "model", tmp_path / "base"):
        model_folder(folder, marker)
        path = folder / "tokenizer_config.json"
        path.write_text(
            json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "auto_map"})
        )
    edit(run / "model" / "sts_lightning.json", set_at("base.name", str(tmp_path / "base")))
    path = run / "model" / "sts_lightning.json"
    path.write_text(json.dumps(yaml.safe_load(path.read_text())))
    load_weights(SentenceEncoder.from_pretrained(str(tmp_path / "base"), pooling="mean"), run / "model")
    assert not marker.exists()
    trusted = SentenceEncoder.from_pretrained(str(tmp_path / "base"), pooling="mean", trust_remote_code=True)
    marker.unlink()
    load_weights(trusted, run / "model")
    assert marker.exists()
