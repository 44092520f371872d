"""Options of the commands that Hydra reads."""

from __future__ import annotations

import pytest

from sts_lightning.config.check import path_override
from sts_lightning.config.options import Options, options, take_options, using
from sts_lightning.core.conf_folders import ENTRIES, Entry
from sts_lightning.core.errors import ConfigError


def test_options_are_taken_off_the_command_line() -> None:
    line = "-m trust=true seed=1,2 --plan=24GB --debug resume=r --cfg job"
    chosen, rest = take_options(line.split(), "train")
    assert chosen == Options(True, True, "r", "24GB")
    assert rest == ["-m", "seed=1,2", "--cfg", "job"]
    assert take_options(chosen.of_jobs(), "train")[0] == Options(True, True)
    assert take_options(["trust=False"], "train")[0] == Options()


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


def test_evaluation_has_those_of_trust_and_debug() -> None:
    chosen, rest = take_options(["--plan", "trust=true", "resume=x", "--debug"], "eval")
    assert chosen == Options(True, True)
    assert rest == ["--plan", "resume=x"]


@pytest.mark.parametrize("folder", ["runs/a b", "2026_01", "x=1, y", "/r/a'b\\"])
def test_a_printed_resume_command_names_the_folder(folder: str) -> None:
    assert take_options([path_override("resume", folder)], "train")[0].resume == folder


@pytest.mark.parametrize("line", ["trust=", "trust=my.Loss", "resume="])
def test_a_value_that_is_missing(line: str) -> None:
    with pytest.raises(ConfigError):
        take_options(line.split(), "train")


@pytest.mark.parametrize("line", ["--stage one", "--stage=one", "--share-stages", "--no-share-stages"])
def test_stages_are_runs_of_their_own(line: str) -> None:
    with pytest.raises(ConfigError, match=r"is no option any more\. .*init_from=experiment:NAME"):
        take_options(line.split(), "train")


@pytest.mark.parametrize("line", ["--trust my.Loss", "--trust=my.Loss", "--trust-remote-code"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_one_word_has_taken_the_place_of_names(line: str, entry: Entry) -> None:
    with pytest.raises(ConfigError, match=r"trust=true.*model\.trust_remote_code=true"):
        take_options(line.split(), entry)


def test_a_process_has_its_options_for_a_time() -> None:
    with using(Options(debug=True)):
        assert options().debug
    assert options() == Options()
