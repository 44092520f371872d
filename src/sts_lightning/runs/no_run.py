"""Errors about a folder that is no run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from sts_lightning.config.keys import path_override
from sts_lightning.errors import CheckpointError

OF_MODELS = ("sts_lightning.json", "modules.json", "adapter_config.json", "config.json")
"""Files of exports and other models."""


def no_run(folder: Path, config_file: str) -> CheckpointError:
    """Return the error about a folder without the configuration of a run, or that does not exist.

    It says so if a model is there, and asks for a run folder in it or around it.

    Args:
        folder: The folder.
        config_file: Name of the file that it lacks.
    """
    if not folder.exists():
        return CheckpointError(f"{folder} is not a run folder: it does not exist.")
    message = f"{folder} is not a run folder: it has no {config_file}."
    return CheckpointError(message, hint=_meant(folder, config_file))


def _meant(folder: Path, config_file: str) -> str | None:
    """Return what the user may have meant by something that is no run folder."""
    if any((folder / name).is_file() for name in OF_MODELS):
        return f"It holds a model: name it by model=encoder {path_override('model.name', folder)}."
    whole = next((parent for parent in folder.parents[:2] if (parent / config_file).is_file()), None)
    if whole is not None:
        return f"Did you mean {whole}?"
    inside = [path for depth in ("*", "*/*") for path in folder.glob(f"{depth}/{config_file}")]
    if not inside:
        return None
    newest = max(inside, key=lambda path: path.stat().st_mtime).parent
    return f"Did you mean {newest}{'' if len(inside) == 1 else ', the newest in it'}?"


def check_sections(cfg: Mapping[Any, Any] | DictConfig, config_file: Path, strict: bool = True) -> None:
    """Check that a configuration has the parts without which nothing can be read from it.

    Args:
        cfg: The configuration.
        config_file: Its file, for the message.
        strict: Whether it must be that of a run whose model can be built, not that of an evaluation.

    Raises:
        CheckpointError: A part is missing.
    """
    parts = ("model", "prompt", "evaluation") if strict or "suite" not in cfg else ("model",)
    absent = [key for key in parts if not isinstance(cfg.get(key), Mapping | DictConfig)]
    if strict and not absent and not isinstance(cfg["model"].get("_target_"), str):
        absent = ["model._target_"]
    if absent:
        raise CheckpointError(
            f"{config_file} is not the configuration of a run: it has no {', '.join(absent)}."
        )
