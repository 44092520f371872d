"""From the command line of `train` and `eval` to settings."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from sts_lightning.cli.hydra_app import as_settings, run
from sts_lightning.cli.main import main
from sts_lightning.config.check import path_override
from sts_lightning.config.folders import ENTRIES, Entry
from sts_lightning.core.errors import CheckpointError, ConfigError
from tests.conftest import CONF


@pytest.mark.parametrize(
    ("typed", "settings"),
    [
        ("-m seed=1,2 --plan", "-m plan=true seed=1,2"),
        ("--plan -m seed=1,2", "-m plan=true seed=1,2"),
        ("-m --plan seed=1,2", "-m plan=true seed=1,2"),
        ("-m --plan ~callbacks seed=1,2", "-m plan=true ~callbacks seed=1,2"),
        ("-m --plan=24GB seed=1,2", "-m plan=24GB seed=1,2"),
        ("-m --plan 24GB seed=1,2", "-m plan=24GB seed=1,2"),
        ("--debug -m seed=1,2 --plan a100-80", "-m traceback=true plan=a100-80 seed=1,2"),
        ("seed=1 --cfg job --debug", "traceback=true seed=1 --cfg job"),
        ("--debug", "traceback=true"),
        ("resume=runs/a trust=true", "resume=runs/a trust=true"),
    ],
)
def test_options_become_settings_among_the_others(typed: str, settings: str) -> None:
    """Hydra's parser takes settings in a row alone; what is a setting stays one in further processes."""
    assert " ".join(as_settings("train", typed.split())) == settings
    again = as_settings("train", settings.split())
    assert sorted(again) == sorted(settings.split())


def test_evaluation_has_no_plan() -> None:
    assert as_settings("eval", ["--plan", "--debug", "trust=true"]) == [
        "--plan",
        "traceback=true",
        "trust=true",
    ]


@pytest.mark.parametrize("folder", ["runs/a b", "2026_01", "1e5", "true", "x=1, y", "/r/a'b\\"])
@pytest.mark.parametrize("quoted", [True, False])
def test_any_folder_can_be_resumed(folder: str, quoted: bool) -> None:
    """As a command prints it, and as a user types it, without the quotes that Hydra wants."""
    typed = path_override("resume", folder) if quoted else f"resume={folder}"
    with initialize_config_dir(str(CONF), version_base="1.3"):
        assert compose("train", as_settings("train", [typed])).resume == folder


@pytest.mark.parametrize("text", ["resume=", "resume=' '"])
def test_a_folder_without_a_name(text: str) -> None:
    with pytest.raises(ConfigError, match="resume needs the folder of a run"):
        as_settings("train", [text])


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("--trust my.Loss", r"trust=true.*model\.trust_remote_code=true"),
        ("--trust-remote-code", r"trust=true.*model\.trust_remote_code=true"),
        ("--stage=one", "init_from=experiment:NAME"),
        ("--share-stages", "init_from=experiment:NAME"),
    ],
)
@pytest.mark.parametrize("entry", ENTRIES)
def test_options_of_earlier_versions(line: str, hint: str, entry: Entry) -> None:
    with pytest.raises(ConfigError, match=f"is no option any more. .*{hint}"):
        as_settings(entry, line.split())


Start = Callable[[list[str]], None]


def by_program(arguments: list[str]) -> None:
    main(arguments)


def by_script(arguments: list[str]) -> None:
    sys.argv = ["train.py", *[text for text in arguments if text != "train"]]
    run("train")


@pytest.mark.parametrize("start", [by_program, by_script])
@pytest.mark.parametrize(
    "line",
    [
        "--debug train resume=none",
        "train --debug resume=none",
        "train resume=none --debug",
        "train traceback=true resume=none",
    ],
)
def test_traces_are_shown_wherever_it_is_typed(
    line: str, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["bin/sts-lightning"])
    with pytest.raises(CheckpointError, match="none is not a run folder"):  # as Python shows it
        start(line.split())
    with pytest.raises(SystemExit, match="error: none is not a run folder"):
        start(["train", "resume=none"])


@pytest.mark.parametrize("plan", ["--plan", "--plan=24GB", "--plan 24GB", "plan=24GB", "plan=true"])
def test_a_plan_needs_a_sweep_in_each_spelling(
    plan: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="error: plan lists the jobs of a sweep: add -m"):
        by_script(["train", "data=toy", *plan.split()])
