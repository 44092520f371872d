"""Whether a model's vectors depend on what a sentence is batched with."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from transformers import PreTrainedModel

from sts_lightning.errors import ConfigError

# fmt: off
PROVEN = frozenset((
    "albert", "bart", "bert", "bloom", "deberta", "deberta-v2", "distilbert", "electra", "eurobert",
    "falcon", "falcon_mamba", "gemma", "gemma2", "gemma3_text", "glm", "gpt2", "gpt_neox",
    "gpt_oss", "gte", "jina_embeddings_v3", "llama", "m2m_100", "mamba", "mbart", "mistral",
    "mixtral", "modernbert", "mpnet", "mt5", "nomic_bert", "olmo2", "opt", "phi3",
    "qwen2", "qwen3", "qwen3_moe", "roberta", "smollm3", "t5", "umt5", "xlm-roberta", "xlnet",
))
# fmt: on
"""Model types whose padded vectors have been compared with unpadded ones; no probe when they are loaded."""

TOLERANCE = 1e-3
"""Largest difference that float32 rounding explains, as a share of the longer vector."""

COARSE_TOLERANCE = 0.05
"""The same of 16-bit arithmetic and of quantised weights."""


def is_proven(backbone: PreTrainedModel) -> bool:
    """Whether the model is of a known type and of the library's code; other code may call itself ``bert``."""
    own = type(backbone).__module__.startswith("transformers.models.")
    return own and backbone.config.model_type in PROVEN


TEXTS = ["A dog runs.", "Someone plays an old guitar in the park while two men are sitting on a bench."]
"""What is embedded: a short sentence and a longer one."""


@torch.no_grad()
def check_independence(embed: Callable[[list[str]], Tensor], backbone: PreTrainedModel) -> None:
    """Embed a short sentence alone and beside a longer one, and reject a model that tells the difference.

    Models without an attention mask that holds in every layer do so: their padding changes the vector (FNet,
    ConvBERT, Nystromformer), or it depends on chance (YOSO).

    Args:
        embed: Embeds sentences in one padded chunk, (N, D), with a model in evaluation mode.
        backbone: The model inside, which tells its name and precision.

    Raises:
        ConfigError: The vectors differ, or the model cannot embed two sentences at once.
    """
    name = type(backbone).__name__
    try:
        alone, beside = embed(TEXTS[:1])[0], embed(TEXTS)[0]
    except Exception as error:  # whatever a model of an unknown kind raises
        raise ConfigError(
            f"{name} cannot embed two sentences of different length in one batch ({type(error).__name__}: "
            f"{str(error).partition(chr(10))[0]}); choose another model."
        ) from error
    if not agree(alone, beside, backbone):
        raise ConfigError(
            f"{name} gives a sentence another vector beside a longer one than alone: it does not ignore "
            "padding, so its vectors depend on the batch. Choose another model."
        )


def agree(one: Tensor, other: Tensor, backbone: PreTrainedModel) -> bool:
    """Whether two tensors are equal up to rounding in the model's precision; NaN never is."""
    exact = backbone.dtype == torch.float32 and not getattr(backbone, "is_quantized", False)
    size = torch.maximum(one.norm(), other.norm())
    return bool((one - other).norm() <= (TOLERANCE if exact else COARSE_TOLERANCE) * size)
