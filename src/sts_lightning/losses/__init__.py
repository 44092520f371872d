"""Loss heads: embeddings and labels in, a scalar out. One file, one class, one YAML for each."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

from sts_lightning.losses.base import Loss


def all_losses() -> dict[str, type[Loss]]:
    """Every loss by its stem, which is the name of its file and of its YAML."""
    found = {}
    for info in pkgutil.iter_modules(__path__):
        module = import_module(f"{__name__}.{info.name}")
        for value in vars(module).values():
            own = isinstance(value, type) and value.__module__ == module.__name__
            if own and issubclass(value, Loss) and not inspect.isabstract(value):
                found[info.name] = value
    return found
