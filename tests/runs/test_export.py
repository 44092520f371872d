"""The command `sts-lightning export`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from sts_lightning.cli.main import main
from tests.support.exports import Config, trained


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
    assert "'onnx' is not one of " in capsys.readouterr().err
