"""The command `sts-lightning export`."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sts_lightning.cli.main import main
from sts_lightning.runs.folder import RunFolder
from tests.support.card_runs import SETTINGS, write_run
from tests.support.command_line import leaves


@pytest.mark.parametrize("options", [["--push", "me/mine"], ["--push", "me/mine", "--private"], ["--push"]])
def test_the_upload_of_0_3_is_a_command_of_the_hub(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    said = leaves("export", "run", "out", *options, capsys=capsys)
    assert "hf upload OWNER/NAME FOLDER . --delete '*'" in said


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Any:
    """The last line of an export in a format, by the name of the base model."""
    monkeypatch.setattr("sts_lightning.models.loading.hub.hub_is_reachable", lambda: False)
    monkeypatch.setattr("sts_lightning.cli.export.export", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    caplog.set_level("INFO")

    def export(form: str, base: str) -> str:
        write_run(Path("run"))
        RunFolder("run").config_file.write_text(yaml.safe_dump({**SETTINGS, "model": {"name": base}}))
        main(["export", "run", "my model", "--format", form])
        return str(caplog.messages[-1])

    return export


@pytest.mark.parametrize(("form", "base"), [("adapter", "owner/base"), ("merged", ".")])
def test_hf_understands_the_line(form: str, base: str, said: Any) -> None:
    command = said(form, base).partition("to upload it: ")[2]
    assert command == "hf upload OWNER/NAME 'my model' . --delete '*'"
    hf, *words = shlex.split(command)
    program = Path(sys.executable).with_name(hf)
    done = subprocess.run([program, *words, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr  # an unknown option is an error with --help, too


def test_an_adapter_on_a_folder_is_not_for_upload(said: Any) -> None:
    Path("private").mkdir()
    line = said("adapter", "private")
    assert "hf upload" not in line
    assert "private, the base of the adapter, is not on the hub" in line
