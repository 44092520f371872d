"""Every file of conf/."""

from __future__ import annotations

from collections.abc import Callable

from omegaconf import DictConfig

from tests.conftest import CONF, PAPERS_CONF

Config = Callable[..., DictConfig]


def test_every_yaml_opens_with_its_command() -> None:
    """Hydra reads a package only from the very first line."""
    commands = ("# python train.py", "# python eval.py", "# sts-lightning ", "# make reproduce")
    paths = [*CONF.rglob("*.yaml"), *PAPERS_CONF.rglob("*.yaml")]
    texts = {path: path.read_text().removeprefix("# @package _global_\n") for path in paths}
    assert [path for path, text in texts.items() if not text.startswith(commands)] == []
