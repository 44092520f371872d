"""Published cells: batch size and epochs for a choice of data, model and prompt."""

from __future__ import annotations

from importlib.resources import files

import yaml
from omegaconf.errors import InterpolationToMissingValueError

from sts_lightning.errors import ConfigError

GROUP = "published"
"""Hydra's group of the cells, and the node of the configuration that holds the chosen one."""


def published_cells() -> dict[tuple[str, str, str], dict[str, int]]:
    """Return the settings of each published cell by data, model and prompt, from ``cells.yaml``."""
    text = files("sts_lightning.config").joinpath("cells.yaml").read_text(encoding="utf-8")
    return {
        (data, model, prompt): settings
        for data, models in yaml.safe_load(text).items()
        for model, prompts in models.items()
        for prompt, settings in prompts.items()
    }


def is_cell(key: str) -> bool:
    """Return whether a dotted key is a setting of the chosen cell, which is missing if there is no cell."""
    return key.startswith(f"{GROUP}.")


def unset(error: InterpolationToMissingValueError) -> ConfigError:
    """Return the error for a setting that takes its value from one without a value, such as an absent cell's.

    Args:
        error: Error raised by OmegaConf, which names both settings.
    """
    key = str(error.full_key)
    hint = f"Set it: {key}=..."
    if f"{GROUP}." not in str(error):
        return ConfigError(f"{key} refers to a setting that has no value.", key=key, hint=hint)
    cells = published_cells()
    names = [", ".join(dict.fromkeys(cell[place] for cell in cells)) for place in range(3)]
    listed = "; ".join(
        f"{group}={choices}" for group, choices in zip(("data", "model", "prompt"), names, strict=True)
    )
    return ConfigError(
        f"{key} has no default: none is published for this choice of data, model and prompt.",
        key=key,
        hint=f"{hint} Cells are published for {listed}.",
    )
