"""Settings of the Trainer that are out of range or that this machine cannot run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from omegaconf import DictConfig

from sts_lightning.config.machine import decide
from sts_lightning.errors import ConfigError
from sts_lightning.workflows.trainer_checks import check_trainer

Config = Callable[..., DictConfig]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["trainer.devices=0"], "must be positive, or -1 for all"),
        (["trainer.devices=-1"], "without any give the number of processes"),
        (["trainer.micro_batch_size=24"], r"does not divide data\.batch_size=64; choose among 1, 2, 4, 8"),
        (["trainer=gpu"], "no CUDA device is visible"),
        (["trainer.chunk_tokens=many"], "must be at least 1, or auto"),
        (["precision=16-mixed"], "needs a CUDA device"),
        (["+trainer.extra.accumulate_grad_batches=2"], "raise data.batch_size instead"),
        (["trainer.save_every=0"], "at least 1"),
        (["trainer.keep_every=0"], "at least 1, or null"),
    ],
)
def test_settings_that_cannot_run(overrides: list[str], message: str, config: Config) -> None:
    with pytest.raises(ConfigError, match=message):
        cfg = config(*overrides)
        check_trainer(cfg.trainer, decide(cfg.trainer), cfg.data.batch_size)
