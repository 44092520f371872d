"""Names of settings."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig

from sts_lightning.config.build import to_container
from sts_lightning.config.check import nodes, path_override, suggest, with_home

Config = Callable[..., DictConfig]


def test_suggestions(config: Config) -> None:
    values = to_container(config("loss=cosent"))
    keys = [f"{key}.{name}" for key, node in nodes(values) for name in node]
    assert suggest("max_steps", keys) == "Did you mean trainer.max_steps?"
    assert "optim.warmup" in suggest("optim.warmpu", keys)
    assert suggest("lr", ["optim.eps", "optim.lr"]) == "Did you mean optim.lr?"  # the group is missing
    # Nothing is similar within the group: its settings are listed rather than a key of another group.
    assert suggest("loss.temprature", keys) == "Settings of loss: scale."
    assert {"optim.lr", "loss.scale", "trainer.extra"} <= set(keys)


@pytest.mark.parametrize(
    "path",
    [
        "~/x",
        "/runs/größe",
        "/runs/x (1)",
        "a,b",
        "it's",
        "end\\",
        "a\\'b",
        "a\\b",
        "{x}",
        "[y]",
        "a=b",
        " left",
    ],
)
def test_a_path_in_an_override_is_read_back(path: str) -> None:
    text = path_override("hydra.run.dir", path)
    assert OverridesParser.create().parse_override(text).value() == path
    assert path_override("resume", "/runs/2026-01-01/a b") == "resume=/runs/2026-01-01/a b"


@pytest.mark.parametrize(
    ("argument", "expanded"),
    [
        ("hydra.run.dir=~/runs/a", "hydra.run.dir=/elsewhere/runs/a"),
        ('+path="~/x, y.csv"', '+path="/elsewhere/x, y.csv"'),
        ("path='~/x'", "path='/elsewhere/x'"),
        ("path=~/a.csv,~/b.csv", "path=/elsewhere/a.csv,/elsewhere/b.csv"),
        ("path=[~/a.csv, '~/b.csv']", "path=[/elsewhere/a.csv, '/elsewhere/b.csv']"),
        ("path=a~/b", "path=a~/b"),
        ("path=~other/b", "path=~other/b"),
        ("~callbacks", "~callbacks"),
    ],
)
def test_the_home_folder_is_written_out(
    argument: str, expanded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/elsewhere")
    assert with_home(argument) == expanded
