"""Published cells: batch size, epochs and warm-up for a choice of data, model and prompt."""

from __future__ import annotations

from importlib.resources import files

import yaml

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
