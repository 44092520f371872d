"""The data module in plain Lightning, without the workflows."""

from __future__ import annotations

from functools import partial
from typing import Any

import lightning.pytorch as pl
import pytest
import torch

from sts_lightning.losses.pearson import PearsonLoss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.training.module import STSModule
from sts_lightning.training.optim import make_optimizer, make_schedule
from tests.unit.data.test_module import Reads, data


def module(encoder: SentenceEncoder) -> STSModule:
    optimizer = partial(make_optimizer, lr=1e-3, weight_decay=0.0, betas=(0.9, 0.999), eps=1e-8, fused=False)
    schedule = partial(make_schedule, schedule="linear", warmup=0, total_steps=10)
    return STSModule(encoder, PearsonLoss(), optimizer, schedule)


def trainer(**settings: Any) -> pl.Trainer:
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    return pl.Trainer(accelerator="cpu", max_epochs=2, enable_model_summary=False, **quiet, **settings)


def test_plain_fit(encoder: SentenceEncoder) -> None:
    reads = Reads()
    source, model, fit = data(reads), module(encoder.train()), trainer()
    before = [parameter.clone() for parameter in encoder.parameters()]
    source.connect(encoder.prepare(2048, training=True), encoder.prepare(2048, training=False))
    fit.fit(model, datamodule=source)
    assert fit.global_step == 10
    assert -100 <= float(fit.callback_metrics["dev/spearman"]) <= 100
    assert any(not torch.equal(*pair) for pair in zip(before, encoder.parameters(), strict=True))
    assert reads.count == 1


def test_fit_without_tokenisation(encoder: SentenceEncoder) -> None:
    with pytest.raises(RuntimeError, match=r"data\.connect\("):
        trainer().fit(module(encoder), datamodule=data())
