"""Losses: embeddings and labels in, a scalar out. Each has a file, a class and a YAML of the same name."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

from sts_lightning.losses.base import Loss


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
