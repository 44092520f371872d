"""Nomic's BERT: the configuration of its checkpoints, in the terms of the library's class."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedConfig

from sts_lightning.errors import CheckpointError, ConfigError

NAMES = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "layer_norm_epsilon": "layer_norm_eps",
    "embd_pdrop": "hidden_dropout_prob",
    "attn_pdrop": "attention_probs_dropout_prob",
}
"""The library's name of each size by that of the checkpoints, which are GPT-2's.

The library ignores the latter, and would build a model of its own defaults' size.
"""

BUILT: dict[str, tuple[Any, ...]] = {
    "activation_function": ("swiglu",),
    "causal": (False,),
    "mlp_fc1_bias": (False,),
    "mlp_fc2_bias": (False,),
    "moe_every_n_layers": (0, None),
    "parallel_block": (False,),
    "prenorm": (False,),
    "qkv_proj_bias": (False,),
    "rotary_emb_fraction": (1.0,),
    "rotary_emb_interleaved": (False,),
    "rotary_emb_scale_base": (None,),
    "rotary_scaling_factor": (None,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "use_rms_norm": (False, None),
}
"""Values of further settings for which the library's class computes what Nomic's code does."""


def is_nomic_bert(config: PreTrainedConfig) -> bool:
    """Return whether a configuration is of this architecture."""
    return config.model_type == "nomic_bert"


def translate(config: PreTrainedConfig, name: str) -> None:
    """Set the sizes of the library's class to those that a checkpoint states under other names, in place.

    Args:
        config: Configuration of the checkpoint.
        name: Name of the model.

    Raises:
        ConfigError: The checkpoint has a setting that the library's class does not compute.
    """
    for key, built in BUILT.items():
        value = getattr(config, key, built[0])
        if value not in built:
            raise ConfigError(
                f"{name} has {key}={value!r}; only {built[0]!r} can be computed here.",
                key="model.name",
                hint="Choose another model, such as nomic-embed-text-v1.",
            )
    for theirs, ours in NAMES.items():
        value = getattr(config, theirs, None)
        if value is not None:
            setattr(config, ours, value)
    config.head_dim = config.hidden_size // config.num_attention_heads
    base = getattr(config, "rotary_emb_base", None)
    if base is not None:
        config.rope_parameters = {"rope_type": "default", "rope_theta": float(base)}


def check_weights(name: str, unexpected: set[str]) -> None:
    """Reject a checkpoint with further weights, such as the experts of later models.

    Args:
        name: Name of the model.
        unexpected: Keys of the checkpoint that the library's class lacks.

    Raises:
        CheckpointError: One of them takes part in the vectors.
    """
    further = sorted(key for key in unexpected if not key.startswith(("pooler.", "cls.", "lm_head.")))
    if further:
        raise CheckpointError(
            f"{name} has another architecture than nomic-embed-text-v1, with further weights "
            f"({', '.join(further[:3])}, ...); choose another model."
        )
