"""Division of the weights of a training module among processes (FSDP2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from sts_lightning.errors import ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.sharding import is_divided, is_sharded, shard_backbone

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


def shard_module(module: nn.Module, mesh: DeviceMesh) -> None:
    """Divide the weights of a training module: those of its encoders, and of parts beside them that train.

    Args:
        module: Encoder, loss and companions.
        mesh: The processes, in one dimension.

    Raises:
        ConfigError: A parameter that trains cannot be divided.
    """
    from torch.distributed.fsdp import fully_shard

    for encoder in [part for part in module.modules() if isinstance(part, SentenceEncoder)]:
        if not is_sharded(encoder):
            shard_backbone(encoder.backbone, mesh)
    beside: list[nn.Module] = []
    for name, value in module.named_parameters():
        if value.requires_grad and not is_divided(value):
            if value.ndim == 0:
                raise ConfigError(
                    f"trainer.strategy=fsdp: {name} is a scalar, which cannot be divided; "
                    "give it the shape (1,).",
                    key="trainer.strategy",
                )
            beside.append(_owner(module, name))
    for part in dict.fromkeys(beside):
        # Small, and whole until the backward pass: what a loss lets one observe may be a view of a weight.
        fully_shard(part, mesh=mesh, reshard_after_forward=False)


def _owner(module: nn.Module, name: str) -> nn.Module:
    """Return the part that is called as a whole and holds a parameter: a projection, or a child."""
    part = module.get_submodule(name.partition(".")[0])
    return part.projector if isinstance(part, SentenceEncoder) else part
