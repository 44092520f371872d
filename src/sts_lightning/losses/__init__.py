"""Losses: embeddings and labels in, a scalar out. Each has one file, one class and one YAML."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

from sts_lightning.losses.base import Loss


def all_losses() -> dict[str, type[Loss]]:
    """Return every loss by its stem, the name of its file and of its YAML."""
    found = {}
    for info in pkgutil.iter_modules(__path__):
        module = import_module(f"{__name__}.{info.name}")
        for value in vars(module).values():
            own = isinstance(value, type) and value.__module__ == module.__name__
            if own and issubclass(value, Loss) and not inspect.isabstract(value):
                found[info.name] = value
    return found
