"""Lightning's strategy for weights that are divided among processes (FSDP2)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.strategies import ModelParallelStrategy
from lightning.pytorch.strategies.strategy import Strategy
from torch import Tensor
from torch.optim import Optimizer

from sts_lightning.models.sharding import divided, gathered, load_weights


class ShardedStrategy(ModelParallelStrategy):
    """Fully sharded data parallelism, whose checkpoints are those of one process.

    The checkpoint of a run does not depend on how the weights were divided, so that the run resumes with
    another number of processes, or undivided.

    Args:
        processes: Number of processes of the run.
    """

    def __init__(self, processes: int) -> None:
        super().__init__(
            data_parallel_size=processes, tensor_parallel_size=1, save_distributed_checkpoint=False
        )

    @property
    def lightning_restore_optimizer(self) -> bool:
        """Whether Lightning hands the state of the optimiser to `load_optimizer_state_dict`."""
        return True

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """Gather what the module stores in a checkpoint; only the first process gets it."""
        assert self.lightning_module is not None
        state: dict[str, Any] = gathered(self.lightning_module.state_dict(), self.is_global_zero)
        return state

    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        """Divide the weights of a checkpoint."""
        assert self.lightning_module is not None
        load_weights(self.lightning_module, checkpoint["state_dict"])

    def optimizer_state(self, optimizer: Optimizer | LightningOptimizer) -> dict[str, Any]:
        """Gather the state of an optimiser; only the first process gets it."""
        plain = optimizer._optimizer if isinstance(optimizer, LightningOptimizer) else optimizer
        state: dict[str, Any] = gathered(plain.state_dict(), self.is_global_zero)
        return state

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        """Divide the state of the optimiser of a checkpoint."""
        for optimizer, stored in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            members = [value for group in optimizer.param_groups for value in group["params"]]
            state = {
                number: {name: _like(value, members[number]) for name, value in values.items()}
                for number, values in stored["state"].items()
            }
            optimizer.load_state_dict({**stored, "state": state})

    def load_checkpoint(
        self, checkpoint_path: str | Path, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read a checkpoint in every process."""
        return Strategy.load_checkpoint(self, checkpoint_path, weights_only)


def _like(value: Any, parameter: Tensor) -> Any:
    return divided(value, parameter) if isinstance(value, Tensor) else value
