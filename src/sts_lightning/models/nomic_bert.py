"""Nomic's BERT: what its checkpoints state in GPT-2's names, which the library's class ignores."""

from __future__ import annotations

from transformers import PreTrainedConfig

from sts_lightning.errors import CheckpointError, ConfigError

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


def check_weights(name: str, unexpected: set[str]) -> None:
    """Reject a checkpoint with further weights, such as biases or the experts of later models.

    Raises:
        CheckpointError: One of them takes part in the vectors.
    """
    further = sorted(key for key in unexpected if not key.startswith(("pooler.", "cls.", "lm_head.")))
    if further:
        raise CheckpointError(
            f"{name} has another architecture than nomic-embed-text-v1, with further weights "
            f"({', '.join(further[:3])}, ...); choose another model."
        )
