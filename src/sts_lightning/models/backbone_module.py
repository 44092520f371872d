"""A transformer in a module: device, precision, gradient checkpointing."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from sts_lightning.choices import Precision
from sts_lightning.errors import ConfigError
from sts_lightning.models.backbone import DTYPES
from sts_lightning.models.cpu_attention import recomputed_attention
from sts_lightning.models.quantization import follow_weights

if TYPE_CHECKING:  # peft takes seconds to import, and few runs have an adapter
    from peft import PeftModel


class BackboneModule(nn.Module):
    """Module around a backbone.

    Attributes:
        backbone: Transformer without a head, possibly in an adapter.
    """

    backbone: PreTrainedModel | PeftModel

    @property
    def plain_backbone(self) -> PreTrainedModel:
        """Backbone without the wrapper of its adapter."""
        return plain(self.backbone)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device

    def _apply(self, *args: Any, **options: Any) -> Self:
        super()._apply(*args, **options)  # type: ignore[no-untyped-call]
        follow_weights(self)
        return self

    def _to_device(self, chunk: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: values.to(self.device) for name, values in chunk.items()}

    def checkpoint_layers(self) -> None:
        """Recompute each layer in the backward pass, keeping only its input (gradient checkpointing).

        Raises:
            ConfigError: The model does not support it, or has a trained prefix.
        """
        adapters = getattr(self.backbone, "peft_config", {}).values()
        if any(adapter.peft_type == "PREFIX_TUNING" for adapter in adapters):
            raise prefix_left_out()
        try:
            self.backbone.activation_checkpointing_enable(
                {"use_reentrant": False, "context_fn": partial(recomputed_attention, self.backbone)}
            )
            # For reentrant checkpoints the library lets token embeddings require a gradient. Here that would
            # hold the embeddings of every chunk, and their gradients, until the end of the backward pass.
            self.plain_backbone.disable_input_require_grads()
        except ValueError as error:
            raise ConfigError(f"trainer.gradient_checkpointing: {error}") from error

    @property
    def precision(self) -> Precision:
        """Precision of the weights that are not quantised."""
        return next(name for name, dtype in DTYPES.items() if dtype == self.backbone.dtype)

    def set_precision(self, precision: Precision) -> Self:
        """Convert the weights for inference; training needs float32 weights.

        Raises:
            ConfigError: The precision is not one of inference.
        """
        if precision == self.precision:
            return self
        if precision not in DTYPES:
            raise ConfigError(f"precision must be one of {', '.join(DTYPES)} here, got {precision!r}.")
        # Angles of rotary positions stay float32, as in a model that is loaded in this precision.
        angles = {name: value for name, value in self.named_buffers() if name.endswith("inv_freq")}
        self.to(DTYPES[precision])
        for name, value in angles.items():
            path, _, own_name = name.rpartition(".")
            setattr(self.get_submodule(path), own_name, value)
        return self


def plain(backbone: nn.Module) -> PreTrainedModel:
    """Return the backbone inside an adapter; a backbone without an adapter is returned unchanged."""
    peft = sys.modules.get("peft")  # whoever made an adapter has imported it
    adapted = peft is not None and isinstance(backbone, peft.PeftModel)
    model: Any = backbone.get_base_model() if adapted else backbone  # type: ignore[operator]
    assert isinstance(model, PreTrainedModel)
    return model


def prefix_left_out() -> ConfigError:
    """Return the error of gradient checkpointing with a trained prefix."""
    return ConfigError(
        "trainer.gradient_checkpointing: a trained prefix is a cache of keys and values, which transformers "
        "leaves out where layers are computed again.",
        key="trainer.gradient_checkpointing",
        hint="Set trainer.micro_batch_size=auto, which takes less memory too.",
    )
