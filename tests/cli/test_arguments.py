"""Types of command-line arguments."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from sts_lightning.cli.arguments import add_file, at_least, fraction
from tests.cli.helpers import leaves


def test_whole_numbers_from_a_minimum_on() -> None:
    assert at_least(2)("2") == 2
    for text in ("1", "-3", "2.0", "two", "", "\u0663"):
        with pytest.raises(argparse.ArgumentTypeError, match="whole number of at least 2"):
            at_least(2)(text)


def test_fractions() -> None:
    assert [fraction(text) for text in ("0", "1", ".25")] == [0.0, 1.0, 0.25]
    for text in ("-0.1", "1.1", "nan", "inf", "half"):
        with pytest.raises(argparse.ArgumentTypeError, match="number from 0 to 1"):
            fraction(text)


def test_the_data_root_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STS_DATA_ROOT", "/somewhere")
    parser = argparse.ArgumentParser()
    add_file(parser, "a file")
    assert vars(parser.parse_args([])) == {"file": None, "data_root": "/somewhere"}
    assert parser.parse_args(["x.csv", "--data-root", "y"]).data_root == "y"


WITHOUT_EFFECT = [
    ("reproduce --card 24GB", "--card"),
    ("reproduce --model minilm", "--model"),
    ("reproduce --plan", "--plan"),
    ("reproduce --folder x", "--folder"),
    ("reproduce pcc_table2 --card 24GB", "--card"),
    ("reproduce pcc_table2 --plan --report", "--report"),
    ("reproduce pcc_table2 --plan --resamples 5", "--resamples"),
    ("reproduce pcc_table2 --report --jobs 2", "--jobs"),
    ("reproduce pcc_table2 --report --launcher slurm", "--launcher"),
    ("reproduce pcc_table2 --report --set partition=gpu", "--set"),
    ("runs --best --csv a.csv", "--csv"),
    ("runs --best --each", "--each"),
    ("runs --best --sort minutes", "--sort"),
    ("ceiling --score gold", "--score"),
    ("ceiling a.csv --data-root x", "--data-root"),
    ("leaks --columns a b", "--columns"),
    ("leaks a.csv --against b.csv --data-root x", "--data-root"),
    ("figure --model minilm", "--model"),
    ("figure --on dev", "--on"),
    ("figure regression_figure2 --on dev", "--on"),
    ("figure regression_figure2 --trust a.B", "--trust"),
    ("figure rank_figure3 --runs a --to a.png --folder b", "--folder"),
]


REJECTED = [
    *((command, f"error: {option} has no effect ") for command, option in WITHOUT_EFFECT),
    ("reproduce pcc_table2 --folder a.csv", "--folder a.csv is not a folder"),
    ("reproduce pcc_table2 --plan --set nope", "--launcher process"),
    ("reproduce pcc_table2 --plan --set nope=1", "hydra.launcher.nope: no such setting"),
]


@pytest.mark.parametrize(("command", "message"), REJECTED)
def test_options_that_do_not_fit_each_other_are_rejected(
    command: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").touch()
    assert message in leaves(*command.split(), capsys=capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
