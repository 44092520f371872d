"""Error about a folder that is no run."""

from __future__ import annotations

from pathlib import Path

from sts_lightning.errors import CheckpointError

OF_MODELS = ("sts_lightning.json", "modules.json", "adapter_config.json", "config.json")
"""Files of exports and other models."""


def no_run(folder: Path, config_file: str) -> CheckpointError:
    """Return the error about a folder without the configuration of a run; it says so if a model is there.

    Args:
        folder: The folder.
        config_file: Name of the file that it lacks.
    """
    has_model = any((folder / name).is_file() for name in OF_MODELS)
    return CheckpointError(
        f"{folder} is not a run folder: it has no {config_file}.",
        hint=f"It holds a model: name it by model=encoder model.name={folder}." if has_model else None,
    )
