"""Length of a run, and Lightning's Trainer for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from omegaconf import DictConfig

from sts_lightning.core.signals import PARENT
from sts_lightning.training.trainer import _environment, count_steps

Config = Callable[..., DictConfig]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], (85, 170, 21)),
        (["trainer.max_steps=20"], (85, 20, 20)),
        (["trainer.limit_train_batches=10", "trainer.val_every=0.5"], (10, 20, 5)),
        (["trainer.limit_train_batches=27", "trainer.val_every=0.5"], (27, 54, 13)),  # twice per epoch
        (["trainer.val_every=30"], (85, 170, 30)),
        (["trainer.max_steps=300"], (85, 300, 21)),  # the limit that is set, beyond the usual two epochs
        (["trainer.max_epochs=3"], (85, 255, 21)),
        (["trainer.max_epochs=3", "trainer.max_steps=300"], (85, 255, 21)),  # the nearer of both
        (["trainer.max_epochs=-1", "trainer.max_steps=300"], (85, 300, 21)),
        (["trainer.val_every=1"], (85, 170, 1)),  # every step
        (["trainer.val_every=null"], (85, 170, 85)),  # every epoch
    ],
)
def test_steps(overrides: list[str], expected: tuple[int, int, int], config: Config) -> None:
    steps = count_steps(config(*overrides).trainer, 85)
    assert (steps.epoch_steps, steps.total_steps, steps.val_steps) == expected
    assert steps.shortened == ("trainer.max_steps=300" in overrides and steps.total_steps < 300)


def test_lightning_does_not_requeue_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would save in the middle of a step; and within a sweep the job is not that of the run."""
    for name in ("SLURM_NTASKS", "SLURM_JOB_NAME", PARENT, "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    assert _environment() == []
    monkeypatch.setenv("SLURM_NTASKS", "1")
    (environment,) = _environment()
    assert environment.auto_requeue is False  # type: ignore[attr-defined]
    monkeypatch.setenv(PARENT, "1")
    (environment,) = _environment()
    assert type(environment).__name__ == "LightningEnvironment"
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    assert _environment() == []
