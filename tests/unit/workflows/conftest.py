"""Workflows up to the point at which weights would be loaded."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
from omegaconf import DictConfig

from sts_lightning.training.assembly import Components, assemble
from sts_lightning.workflows import evaluate, train


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever loads weights fails, so that a row that gets so far does."""

    def load(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("weights would be loaded")

    def on_meta(cfg: DictConfig, device: str, *further: Any) -> Components:
        return assemble(cfg, device, *further) if device == "meta" else load()

    monkeypatch.setattr(train, "assemble", on_meta)
    monkeypatch.setattr(evaluate, "build_encoder", load)
