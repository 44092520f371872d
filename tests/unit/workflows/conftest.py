"""Workflows up to the point at which weights would be loaded."""

from __future__ import annotations

from typing import Any

import pytest

from sts_lightning.workflows import build, evaluate


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever loads weights fails, so that a row that gets so far does."""

    def load(*_: Any, **__: Any) -> None:
        raise AssertionError("weights would be loaded")

    monkeypatch.setattr(build, "build_encoder", load)
    monkeypatch.setattr(evaluate, "build_encoder", load)
