"""Losses: embeddings and labels in, a scalar out. Each has a class and a YAML of the same name."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from sts_lightning.losses.base import Loss

PACKAGES = (__name__, "sts_lightning.papers.losses")
"""Where losses are found by name; those of single papers are imported on first use alone."""


REGRESSION = ("l1", "mse", "smooth_k2", "translated_relu")

FAMILIES = {
    "regression": REGRESSION,
    "paper_code": tuple(f"paper_code_{name}" for name in (*REGRESSION, "mixcse", "pearson", "rankcse")),
}
"""Losses that share a file, by its name."""


def __getattr__(name: str) -> Any:
    """Import a class on first use, as in ``from sts_lightning.losses import PearsonLoss``, and no other."""
    if name == "for_sentence_transformers":
        return import_module("sts_lightning.export.sentence_transformers_loss").SentenceTransformersLoss
    for stem, module in _modules():
        if _is_class_of(stem, name):
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def all_losses() -> dict[str, type[Loss]]:
    """Return every loss by the name of its YAML."""
    return {
        stem: kind
        for stem, module in _modules()
        for name, kind in vars(import_module(module)).items()
        if _is_class_of(stem, name)
    }


def _modules() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for info in pkgutil.iter_modules(import_module(package).__path__):
            for stem in FAMILIES.get(info.name, (info.name,)):
                yield stem, f"{package}.{info.name}"


def _is_class_of(stem: str, name: str) -> bool:
    return name.lower() == f"{stem.replace('_', '')}loss"
