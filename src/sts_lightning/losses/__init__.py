"""Losses: embeddings and labels in, a scalar out. Each has a file, a class and a YAML of the same name."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module
from typing import Any

from sts_lightning.losses.base import Loss


def __getattr__(name: str) -> Any:
    """Import a class on first use, as in ``from sts_lightning.losses import PearsonLoss``, and no other."""
    if name == "for_sentence_transformers":
        return import_module("sts_lightning.export.sentence_transformers_loss").SentenceTransformersLoss
    for info in pkgutil.iter_modules(__path__):
        if name.lower() == f"{info.name.replace('_', '')}loss":
            return getattr(import_module(f"{__name__}.{info.name}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def all_losses() -> dict[str, type[Loss]]:
    """Return every loss by the name of its file and of its YAML."""
    losses = {}
    for info in pkgutil.iter_modules(__path__):
        module = import_module(f"{__name__}.{info.name}")
        for value in vars(module).values():
            defined_here = isinstance(value, type) and value.__module__ == module.__name__
            if defined_here and issubclass(value, Loss) and not inspect.isabstract(value):
                losses[info.name] = value
    return losses
