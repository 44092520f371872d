"""The command `sts-lightning export`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from sts_lightning.cli.main import main
from sts_lightning.runs.folder import RunFolder
from tests.cli.helpers import leaves
from tests.export.helpers import Config, trained


@pytest.mark.parametrize("place", ["FILE/x", "FILE/x/y", "/proc/x"])
def test_an_export_to_a_place_that_cannot_be_made(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(RunFolder, "load_config", lambda *_: None)
    place = place.replace("FILE", str(tmp_path / "file"))
    assert f"{place} cannot be made" in leaves("export", "run", place, capsys=capsys)


@pytest.mark.parametrize("text", ["MIT", "a b", "-x", ""])
def test_what_is_no_licence(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "licence identifier" in leaves("export", "run", "out", f"--license={text}", capsys=capsys)


def test_the_command(config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained(tmp_path / "run", config)
    out = str(tmp_path / "out")
    main(["export", str(tmp_path / "run"), out, "--license", "apache-2.0"])
    assert (tmp_path / "out" / "modules.json").is_file()
    card = ModelCard.load(tmp_path / "out" / "README.md")
    assert (card.data.license, card.data.library_name) == ("apache-2.0", "sentence-transformers")
    assert 'SentenceTransformer("out")' in card.text
    with pytest.raises(SystemExit, match=r"error: .*out exists already; choose another folder\."):
        main(["export", str(tmp_path / "run"), out])
    shutil.rmtree(out)
    with pytest.raises(SystemExit) as leaving:
        main(["export", str(tmp_path / "run"), out, "--format", "onnx"])
    assert leaving.value.code == 2
    assert "invalid choice: 'onnx'" in capsys.readouterr().err
