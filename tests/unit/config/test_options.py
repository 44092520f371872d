"""Options of the commands that Hydra reads."""

from __future__ import annotations

import pytest

from sts_lightning.config.check import path_override
from sts_lightning.config.options import Options, options, take_options, using
from sts_lightning.config.trust import Trust
from sts_lightning.core.errors import ConfigError


def test_options_are_taken_off_the_command_line() -> None:
    line = "-m --trust a.B seed=1,2 --trust=c.D --plan=24GB --no-share-stages --stage one --debug resume=r"
    chosen, rest = take_options([*line.split(), "--trust-remote-code", "--cfg", "job"], "train")
    trust = Trust.of(["a.B", "c.D"], True)
    assert chosen == Options(trust, True, "r", "24GB", False, "one")
    assert rest == ["-m", "seed=1,2", "--cfg", "job"]
    assert take_options(chosen.of_jobs(), "train")[0] == Options(trust, True)


@pytest.mark.parametrize(
    ("line", "plan", "rest"),
    [
        ("-m seed=1,2 --plan", "", "-m seed=1,2"),
        ("--plan -m seed=1,2", "", "-m seed=1,2"),
        ("-m --plan seed=1,2", "", "-m seed=1,2"),
        ("-m --plan ~callbacks seed=1,2", "", "-m ~callbacks seed=1,2"),
        ("-m --plan=24GB seed=1,2", "24GB", "-m seed=1,2"),
        ("-m --plan 24GB seed=1,2", "24GB", "-m seed=1,2"),
        ("--debug -m seed=1,2 --plan a100-80", "a100-80", "-m seed=1,2"),
    ],
)
def test_a_plan_has_a_card_or_none(line: str, plan: str, rest: str) -> None:
    chosen, others = take_options(line.split(), "train")
    assert (chosen.plan, " ".join(others)) == (plan, rest)


def test_evaluation_has_those_of_consent_and_debug() -> None:
    chosen, rest = take_options(["--plan", "--trust", "a.B", "resume=x", "--stage=y", "--debug"], "eval")
    assert chosen == Options(Trust.of(["a.B"], False), True)
    assert rest == ["--plan", "resume=x", "--stage=y"]


@pytest.mark.parametrize("folder", ["runs/a b", "2026_01", "x=1, y", "/r/a'b\\"])
def test_a_printed_resume_command_names_the_folder(folder: str) -> None:
    assert take_options([path_override("resume", folder)], "train")[0].resume == folder


@pytest.mark.parametrize("line", ["--trust", "--stage --debug", "resume="])
def test_a_value_that_is_missing(line: str) -> None:
    with pytest.raises(ConfigError):
        take_options(line.split(), "train")


def test_a_process_has_its_options_for_a_time() -> None:
    with using(Options(debug=True)):
        assert options().debug
    assert options() == Options()
