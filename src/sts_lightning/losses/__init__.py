"""Losses: embeddings and labels in, a scalar out. Each has a file, a class and a YAML of the same name."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from sts_lightning.losses.base import Loss

PACKAGES = (__name__, "sts_lightning.papers.losses")
"""Where losses are found by name; those of single papers are imported on first use alone."""


def __getattr__(name: str) -> Any:
    """Import a class on first use, as in ``from sts_lightning.losses import PearsonLoss``, and no other."""
    if name == "for_sentence_transformers":
        return import_module("sts_lightning.export.sentence_transformers_loss").SentenceTransformersLoss
    for stem, module in _modules():
        if name.lower() == f"{stem.replace('_', '')}loss":
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def all_losses() -> dict[str, type[Loss]]:
    """Return every loss by the name of its file and of its YAML."""
    losses = {}
    for stem, place in _modules():
        module = import_module(place)
        for value in vars(module).values():
            defined_here = isinstance(value, type) and value.__module__ == module.__name__
            if defined_here and issubclass(value, Loss) and not inspect.isabstract(value):
                losses[stem] = value
    return losses


def _modules() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for info in pkgutil.iter_modules(import_module(package).__path__):
            yield info.name, f"{package}.{info.name}"
