"""Overrides that Hydra cannot read, and how the messages say to write them."""

from __future__ import annotations

import re
import shlex

import pytest
from hydra import compose
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from sts_lightning.conf_folders import Entry
from sts_lightning.config.composing import composing
from sts_lightning.config.override_syntax import syntax_error
from sts_lightning.errors import ConfigError


def message(override: str, entry: Entry = "train") -> ConfigError:
    """What is said of an override on a command line without ``-m``."""
    with composing(), pytest.raises(HydraException) as caught:
        compose(entry, [override])
    error = syntax_error(caught.value, entry)
    assert error is not None
    return error


@pytest.mark.parametrize(
    "text",
    [
        "This sentence: {sentence} means",
        '"{sentence}" means in one word',
        '"{sentence}" isn\'t {it}',
        "{sentence}",
        "my file(1).csv",
        "a&b",
        "été",
        "it's",
        "C:\\data\\é\\",
        "a=b",
        "[1",
    ],
)
def test_the_quoted_form_is_the_text_as_it_was_meant(text: str) -> None:
    error = message(f"data.path={text}")
    assert str(error).startswith(f"data.path={text}: Hydra cannot read this value. ")
    assert error.key == "data.path"
    typed = re.search(r"for the shell: (.*)\.$", str(error), re.DOTALL)
    assert typed is not None
    (argument,) = shlex.split(typed[1])  # as a shell gives it
    override = OverridesParser.create().parse_override(argument)
    assert (override.key_or_group, override.value()) == ("data.path", text)


def test_several_values_are_a_sweep_a_list_or_a_text() -> None:
    error = message("data.path=a.csv,b.csv")
    assert str(error) == (
        "data.path=a.csv,b.csv gives data.path several values, which are a sweep. Add -m to run each, write "
        "a list as 'data.path=[a.csv,b.csv]', or quote a text with a comma: 'data.path=\"a.csv,b.csv\"'."
    )
    parse = OverridesParser.create().parse_override
    assert parse("data.path=[a.csv,b.csv]").value() == ["a.csv", "b.csv"]
    assert "seed=range(1,3) is a sweep. Add -m" in str(message("seed=range(1,3)"))


def test_what_is_no_setting() -> None:
    words = "has no value. A setting is given as key=value, a run folder as"
    assert str(message("pearson")) == f"pearson {words} resume=RUN."
    assert str(message("runs/one", "eval")) == f"runs/one {words} ckpt=RUN."
    assert "'optim lr' cannot be the name of a setting" in str(message("optim lr=3"))


def test_other_errors_are_not_of_syntax() -> None:
    assert syntax_error(ValueError("x"), "train") is None
    with composing(), pytest.raises(HydraException) as caught:
        compose("train", ["data=toy", "optim.lrr=3"])
    assert syntax_error(caught.value, "train") is None
