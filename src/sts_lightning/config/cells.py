"""Published cells: batch size, epochs and warm-up for a choice of data, model and prompt."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import yaml
from hydra.core.config_store import ConfigStore

RECIPE = "qlora"
"""Recipe that takes the cells, where there is one for the choices."""

CELLS = yaml.safe_load(files("sts_lightning.config").joinpath("cells.yaml").read_text(encoding="utf-8"))
"""The file ``cells.yaml``."""


def published_cells() -> dict[tuple[str, str, str], dict[str, int]]:
    """Return the settings of each published cell by data, model and prompt."""
    return {
        (data, model, prompt): settings
        for data, models in CELLS["published"].items()
        for model, prompts in models.items()
        for prompt, settings in prompts.items()
    }


def register_cells(store: ConfigStore) -> None:
    """Register the cells where the defaults list of train.yaml merges them.

    Those of the group ``recipe_cell`` follow the settings of a recipe. Those of ``cell``, and before them
    what there is for other models and prompts, are for experiments that name themselves in ``cells``. An
    experiment and the command line take precedence.
    """
    for experiment, settings in CELLS["others"].items():
        store.store(group="cell_defaults", name=experiment, node=_settings(**settings))
    for choices, settings in published_cells().items():
        name, node = "_".join(choices), _settings(**settings)
        store.store(group="recipe_cell", name=f"{RECIPE}_{name}", node=node)
        for experiment in CELLS["others"]:
            store.store(group="cell", name=f"{experiment}_{name}", node=node)


def _settings(batch_size: int, max_epochs: int, warmup: int) -> dict[str, Any]:
    return {
        "data": {"batch_size": batch_size},
        "trainer": {"max_epochs": max_epochs},
        "optim": {"warmup": warmup},
    }
