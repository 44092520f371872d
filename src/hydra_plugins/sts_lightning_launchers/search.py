"""`hydra/sweeper=search`: Optuna's sweeper with this project's folder names."""

from __future__ import annotations

import contextlib

from hydra.core.hydra_config import HydraConfig
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

with contextlib.suppress(ImportError):  # the extra optuna; Hydra imports this file in any case
    from hydra_plugins.hydra_optuna_sweeper.optuna_sweeper import OptunaSweeper

    class SearchSweeper(OptunaSweeper):
        """Optuna's sweeper, which resolves ``${hydra:...}`` in the name of the sweep's folder."""

        def setup(
            self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
        ) -> None:
            """Set the configuration of Hydra, then set up Optuna's sweeper, which reads the folder."""
            HydraConfig.instance().set_config(config)
            super().setup(hydra_context=hydra_context, task_function=task_function, config=config)
