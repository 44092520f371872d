"""Export of an adapter as a folder that peft reads."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, get_peft_model_state_dict
from peft.utils import SAFETENSORS_WEIGHTS_NAME
from safetensors.torch import save_file
from torch import Tensor

from sts_lightning.errors import CheckpointError
from sts_lightning.export.merged import save_tokenizer
from sts_lightning.models.adapter import changes_base, initial_factors
from sts_lightning.models.encoder import SentenceEncoder


def write_adapter(encoder: SentenceEncoder, folder: Path, name: str) -> None:
    """Write the adapter of an encoder, and its tokenizer.

    An adapter that started as a part of the base weights (PiSSA, OLoRA) is written as a LoRA of twice the
    rank for the base weights as they are, see `_as_lora`.

    Args:
        encoder: Encoder with an adapter; must not be used afterwards.
        folder: Output folder, empty.
        name: Hub id or local folder of the base model, optionally with ``@commit``.

    Raises:
        CheckpointError: The encoder has no adapter.
    """
    if not isinstance(encoder.backbone, PeftModel):
        raise CheckpointError("the run has no adapter; use --format merged, which writes all weights.")
    weights = None
    for config in encoder.backbone.peft_config.values():
        if changes_base(config):
            weights = _as_lora(encoder.backbone, config)
        config.base_model_name_or_path, _, revision = name.partition("@")
        config.revision = revision or None
        config.inference_mode = True
    encoder.backbone.save_pretrained(str(folder), save_embedding_layers=False)
    if weights is not None:
        save_file(weights, folder / SAFETENSORS_WEIGHTS_NAME, metadata={"format": "pt"})
    save_tokenizer(encoder, folder)


def _as_lora(adapted: PeftModel, config: Any) -> dict[str, Tensor]:
    r"""Convert an adapter that started as a part of the base weights to a LoRA for the weights as they are.

    With the initial factors A_0 and B_0 and the scale s, which stays, the weights of the run are

    .. math:: W - s B_0 A_0 + s B A = W + s [B, -B_0] [A; A_0].

    Args:
        adapted: Backbone with the adapter.
        config: Settings of the adapter, changed in place to those of the LoRA.

    Returns:
        Weights of the LoRA by their names in peft's files.
    """
    config.init_lora_weights = True
    config.r *= 2
    growth = math.sqrt(2) if config.use_rslora else 2
    config.lora_alpha *= growth
    config.rank_pattern = {key: 2 * rank for key, rank in config.rank_pattern.items()}
    config.alpha_pattern = {key: growth * alpha for key, alpha in config.alpha_pattern.items()}
    initial = initial_factors(adapted)
    weights = {}
    for name, value in get_peft_model_state_dict(adapted, save_embedding_layers=False).items():
        trained = value.detach().cpu()
        if "lora_A" in name or "lora_embedding_A" in name:
            trained = torch.cat([trained, initial[name]], 0)
        elif "lora_B" in name or "lora_embedding_B" in name:
            trained = torch.cat([trained, -initial[name]], 1)
        weights[name] = trained.contiguous()
    return weights
