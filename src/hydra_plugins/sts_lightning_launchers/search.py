"""`hydra/sweeper=search`: Optuna's sweeper for this project's folders."""

from __future__ import annotations

import contextlib

from hydra.core.hydra_config import HydraConfig
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

with contextlib.suppress(ImportError):  # the extra optuna; Hydra looks into this file in any case
    from hydra_plugins.hydra_optuna_sweeper.optuna_sweeper import OptunaSweeper

    class SearchSweeper(OptunaSweeper):
        """Optuna's sweeper, which knows what ``${hydra:...}`` in the sweep's folder stands for."""

        def setup(
            self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
        ) -> None:
            """As Optuna's, which reads the folder before Hydra has said what it is called after."""
            HydraConfig.instance().set_config(config)
            super().setup(hydra_context=hydra_context, task_function=task_function, config=config)
