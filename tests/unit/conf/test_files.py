"""Every file of conf/."""

from __future__ import annotations

from collections.abc import Callable

from omegaconf import DictConfig

from tests.conftest import CONF

Config = Callable[..., DictConfig]


def test_every_yaml_opens_with_what_it_is() -> None:
    assert [path for path in CONF.rglob("*.yaml") if not path.read_text().startswith("#")] == []
