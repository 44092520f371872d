"""Nomic's BERT: what its checkpoints state in GPT-2's names, which the library's class ignores."""

from __future__ import annotations

from transformers import PreTrainedConfig

from sts_lightning.core.errors import ConfigError

SIZES = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
}
"""The library's name of each size by that of the checkpoints."""

COMPUTED = {
    "activation_function": "swiglu",
    "causal": False,
    "parallel_block": False,
    "prenorm": False,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "scale_attn_by_inverse_layer_idx": False,
}
"""Further settings with what the library's class computes."""


def check_config(config: PreTrainedConfig, name: str) -> None:
    """Reject a checkpoint of another shape than the library builds, whose defaults are nomic-embed-text-v1's.

    Raises:
        ConfigError: A setting differs.
    """
    built = {theirs: getattr(config, ours) for theirs, ours in SIZES.items()}
    built["rotary_emb_base"] = config.rope_parameters["rope_theta"]
    for key, value in (COMPUTED | built).items():
        stated = getattr(config, key, None)
        if stated is not None and stated != value:
            raise ConfigError(
                f"{name} has {key}={stated!r}; only {value!r} can be computed here.",
                key="model.name",
                hint="Choose another model, such as nomic-embed-text-v1.",
            )
