"""Types of the configuration."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Annotated, Literal

import pytest
from annotated_types import Ge
from hydra import compose
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.check import check_config
from sts_lightning.config.compose import composing
from sts_lightning.config.identity import declared
from sts_lightning.config.schema import (
    COST,
    EvalConfig,
    OptimConfig,
    PromptConfig,
    TrainConfig,
    TrainerConfig,
    register_schemas,
)
from sts_lightning.core.errors import ConfigError

Config = Callable[..., DictConfig]


def test_the_groups_of_a_composed_configuration_have_their_types(config: Config) -> None:
    cfg = config()
    assert OmegaConf.get_type(cfg) is TrainConfig.structured
    assert OmegaConf.get_type(cfg.trainer) is TrainerConfig.structured
    assert OmegaConf.get_type(cfg.optim) is OptimConfig.structured
    evaluation = config(of="eval")
    assert OmegaConf.get_type(evaluation) is EvalConfig.structured
    assert OmegaConf.get_type(evaluation.prompt) is PromptConfig.structured
    assert OmegaConf.missing_keys(cfg) == OmegaConf.missing_keys(evaluation) == set()
    assert pickle.loads(pickle.dumps(cfg)) == cfg


@pytest.mark.parametrize("override", ["trainer.max_epochs=many", "trainer.max_epoch=1", "optim.betas=0.9"])
def test_what_has_another_type_or_name_does_not_compose(override: str, config: Config) -> None:
    with pytest.raises(HydraException):
        config(override)


@pytest.mark.parametrize(
    ("value", "rejected"), [("0.99", False), ("1", False), ("1.0", True), ("100", False), ("100.0", False)]
)
@pytest.mark.parametrize("key", ["trainer.val_every", "optim.warmup"])
def test_all_of_an_epoch_is_not_taken_for_one_step(
    key: str, value: str, rejected: bool, config: Config
) -> None:
    """As a number of steps 1.0 would be one, beside 0.99, which is nearly everything."""
    cfg = config(f"{key}={value}")
    if rejected:
        with pytest.raises(ConfigError, match=rf"{key}=1\.0: it must be a fraction .* or a whole number"):
            check_config(cfg)
    else:
        assert OmegaConf.select(check_config(cfg), key) == float(value)


def test_values_are_converted_as_they_are_composed(config: Config) -> None:
    cfg = config("optim.lr=1", "prompt.template=5", "optim.betas=[0,0.5]", "path=5")
    assert (cfg.optim.lr, cfg.prompt.template, cfg.optim.betas, cfg.path) == (1.0, "5", [0.0, 0.5], 5)
    assert type(cfg.optim.lr) is type(cfg.optim.betas[0]) is float


class Optim(OptimConfig):
    """A group with further settings, a line for each."""

    every: Annotated[int, Ge(2), COST] = 3
    kind: Literal["a", "bc"] = "a"


class WiderConfig(TrainConfig):
    optim: Optim


@pytest.fixture
def wider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    """Composes the configuration with the further settings."""

    def register() -> None:
        ConfigStore.instance().store(name="train_schema", node=WiderConfig.structured)

    def make(*overrides: str) -> DictConfig:
        with composing():
            return compose("train", ["name=x", *overrides])

    monkeypatch.setattr("sts_lightning.config.compose.register_schemas", register)
    yield make
    register_schemas()


def test_a_new_setting_is_one_line(wider: Config) -> None:
    assert check_config(wider()).optim.every == 3
    assert check_config(wider("optim.every=5", "optim.kind=bc")).optim.every == 5
    assert declared(WiderConfig)["optim.every"] == "cost"
    assert declared(WiderConfig)["optim.kind"] == "result"
    with pytest.raises(HydraException):
        wider("optim.every=2.5")
    with pytest.raises(ConfigError) as caught:
        check_config(wider("optim.every=1", "optim.kind=b"))
    assert str(caught.value).split("\n  ") == [
        "2 mistakes:",
        "optim.every=1: Input should be greater than or equal to 2.",
        "optim.kind=b: Input should be 'a' or 'bc'.",
    ]
