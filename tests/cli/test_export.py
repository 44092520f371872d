"""The command `sts-lightning export`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

import sts_lightning
from sts_lightning.cli.main import main
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.train import train_in
from tests.cli.helpers import leaves
from tests.conftest import SHORT_RUN


@pytest.mark.parametrize("place", ["FILE/x", "FILE/x/y", "/proc/x"])
def test_an_export_to_a_place_that_cannot_be_made(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(RunFolder, "load_config", lambda *_: None)
    place = place.replace("FILE", str(tmp_path / "file"))
    assert f"{place} cannot be made" in leaves("export", "run", place, capsys=capsys)


Config = Callable[..., DictConfig]


STEPS = ["data.batch_size=8", "trainer.max_epochs=-1", "trainer.max_steps=3", "optim.lr=1e-2", "logger=csv"]


def trained(run: Path, config: Config, *overrides: str) -> SentenceEncoder:
    start = [
        text for text in SHORT_RUN if not (text.startswith("model=") and "model=" in " ".join(overrides))
    ]
    train_in(run, config(*start, *STEPS, "evaluation.final=false", *overrides))
    return sts_lightning.load(run)


def test_the_command(config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained(tmp_path / "run", config)
    out = str(tmp_path / "out")
    main(["export", str(tmp_path / "run"), out])
    assert (tmp_path / "out" / "modules.json").is_file()
    with pytest.raises(SystemExit, match=r"error: .*out exists already; choose another folder\."):
        main(["export", str(tmp_path / "run"), out])
    shutil.rmtree(out)
    with pytest.raises(SystemExit) as leaving:
        main(["export", str(tmp_path / "run"), out, "--format", "onnx"])
    assert leaving.value.code == 2
    assert "invalid choice: 'onnx'" in capsys.readouterr().err
