"""How the two Hydra commands are named where the user is."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.config import folders as conf_folders
from sts_lightning.config.folders import ENTRIES, Entry, command_line, script_of
from tests.conftest import CONF, ROOT


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is in site-packages, and the working directory has a train.py of the user's."""
    monkeypatch.setattr(conf_folders, "PACKAGED", tmp_path / "site-packages/sts_lightning/conf")
    (tmp_path / "here").mkdir()
    (tmp_path / "here/train.py").touch()
    monkeypatch.chdir(tmp_path / "here")


@pytest.mark.parametrize("entry", ENTRIES)
def test_scripts_are_there_and_alone(entry: Entry) -> None:
    assert script_of(entry).is_file()
    beside = {path.stem for path in script_of(entry).parent.glob("*.py")}
    assert beside == {"__init__", *ENTRIES}, "a module beside a script would hide one of its name"


def test_scripts_are_named_in_the_checkout_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert command_line("train", "x=1") == "python train.py x=1"
    monkeypatch.chdir(tmp_path)
    assert command_line("train", "x=1") == "sts-lightning train x=1"


@pytest.mark.usefixtures("installed")
def test_an_installation_has_no_scripts() -> None:
    assert command_line("train", "resume=x") == "sts-lightning train resume=x"


def test_the_configuration_is_where_the_scripts_are() -> None:
    assert all((CONF / f"{entry}.yaml").is_file() for entry in ENTRIES)
