"""Workflows up to the point at which weights would be loaded."""

from __future__ import annotations

from typing import Any

import pytest

from sts_lightning.workflows import evaluated_encoder, train


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever loads weights fails, so that a row that gets so far does."""

    def load(*_: Any, **__: Any) -> None:
        raise AssertionError("weights would be loaded")

    monkeypatch.setattr(train, "build_encoder", load)
    monkeypatch.setattr(evaluated_encoder, "build_encoder", load)
