"""The other processes of a run, ended by the first."""

from __future__ import annotations

from lightning.pytorch import Trainer

from sts_lightning.training.callbacks.resume_checkpoint import stop_others


def test_a_single_process_has_no_others() -> None:
    stop_others(Trainer(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False))
