"""Types of the configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import get_args

import pytest
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.check import check_config
from sts_lightning.config.schema import EvalConfig, OptimConfig, PromptConfig, TrainConfig, TrainerConfig
from sts_lightning.core import choices
from sts_lightning.core.errors import ConfigError

Config = Callable[..., DictConfig]


def test_the_groups_of_a_composed_configuration_have_their_types(config: Config) -> None:
    cfg = config()
    assert OmegaConf.get_type(cfg) is TrainConfig
    assert OmegaConf.get_type(cfg.trainer) is TrainerConfig
    assert OmegaConf.get_type(cfg.optim) is OptimConfig
    evaluation = config(of="eval")
    assert OmegaConf.get_type(evaluation) is EvalConfig
    assert OmegaConf.get_type(evaluation.prompt) is PromptConfig
    assert OmegaConf.missing_keys(cfg) == OmegaConf.missing_keys(evaluation) == set()


@pytest.mark.parametrize("override", ["trainer.max_epochs=many", "trainer.max_epoch=1", "optim.betas=0.9"])
def test_what_has_another_type_or_name_does_not_compose(override: str, config: Config) -> None:
    with pytest.raises(HydraException):
        config(override)


@pytest.mark.parametrize(
    ("schema", "field", "choice"),
    [
        (TrainerConfig, "accelerator", choices.Accelerator),
        (OptimConfig, "schedule", choices.Schedule),
        (PromptConfig, "denoise", choices.Denoise),
        (EvalConfig, "suite", choices.Suite),
    ],
)
def test_fields_take_the_choices_that_are_defined_once(schema: type, field: str, choice: object) -> None:
    metadata = {f.name: f.metadata for f in fields(schema)}  # type: ignore[arg-type]
    assert metadata[field]["choices"] == get_args(choice)


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
        with pytest.raises(ConfigError, match=rf"{key} must be a fraction .* or a whole number of steps"):
            check_config(cfg)
    else:
        assert OmegaConf.select(check_config(cfg), key) == float(value)
