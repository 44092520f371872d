"""Types of command-line arguments."""

from __future__ import annotations

import argparse

import pytest

from sts_lightning.cli.arguments import add_file, at_least, fraction


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
