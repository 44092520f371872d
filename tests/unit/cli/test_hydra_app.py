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
        ("-m seed=1,2 --plan", "seed=1,2 plan=true -m"),
        ("--plan -m seed=1,2", "plan=true seed=1,2 -m"),
        ("-m --plan seed=1,2", "plan=true seed=1,2 -m"),
        ("-m --plan ~callbacks seed=1,2", "plan=true ~callbacks seed=1,2 -m"),
        ("-m --plan=24GB seed=1,2", "plan=24GB seed=1,2 -m"),
        ("-m --plan 24GB seed=1,2", "plan=24GB seed=1,2 -m"),
        ("--debug -m seed=1,2 --plan a100-80", "traceback=true seed=1,2 plan=a100-80 -m"),
        ("seed=1 --cfg job --debug", "seed=1 traceback=true --cfg job"),
        ("seed=1 --info config -m lr=2 -cd mine", "seed=1 lr=2 --info config -m -cd mine"),
        ("--debug", "traceback=true"),
        ("resume=runs/a trust=true", "resume=runs/a trust=true"),
    ],
)
def test_options_become_settings_among_the_others(typed: str, settings: str) -> None:
    """Hydra's parser takes settings in a row alone; what is a setting stays one in further processes."""
    assert " ".join(as_settings("train", typed.split())) == settings
    assert " ".join(as_settings("train", settings.split())) == settings


def test_evaluation_has_no_plan() -> None:
    assert as_settings("eval", ["--plan", "--debug", "trust=true"]) == [
        "traceback=true",
        "trust=true",
        "--plan",
    ]


@pytest.mark.parametrize("folder", ["runs/a b", "2026_01", "1e5", "true", "x=1, y", "/r/a'b\\"])
def test_any_folder_can_be_resumed_as_a_command_prints_it(folder: str) -> None:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        assert compose("train", as_settings("train", [path_override("resume", folder)])).resume == folder


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
