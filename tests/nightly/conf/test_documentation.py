"""Every command on a page of the documentation composes, parses or is a target of the Makefile."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hydra import compose
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig

from sts_lightning.cli.hydra_app import as_settings
from sts_lightning.config.check import check_config
from sts_lightning.config.folders import Entry
from tests.unit.conf.test_documentation import HYDRA, starting_with, words


def first_choices(overrides: list[str]) -> list[str]:
    """Overrides of the first job of a sweep."""
    parsed = zip(overrides, OverridesParser.create().parse_overrides(overrides), strict=True)
    return [
        f"{one.input_line.partition('=')[0]}={next(one.sweep_string_iterator())}"
        if one.is_sweep_override() and not one.is_interval_sweep()
        else text
        for text, one in parsed
        if not text.startswith("hydra") and not one.is_interval_sweep()
    ]


@pytest.mark.parametrize("line", starting_with(*HYDRA))
def test_hydra_command(config: Callable[..., DictConfig], line: str) -> None:
    _, script, *arguments = words(line)
    if any(argument.startswith("resume=") for argument in arguments):
        pytest.skip("the configuration is that of a run")
    of: Entry = "eval" if script.startswith("eval") else "train"
    overrides = [argument for argument in as_settings(of, arguments) if not argument.startswith("-")]
    named = [] if of == "eval" or any(o.startswith("name=") for o in overrides) else ["name=test"]
    check_config(compose(of, [*first_choices(overrides), *named]))
