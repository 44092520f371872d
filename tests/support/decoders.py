"""Small decoders as the prompt papers use large ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from peft import LoraConfig

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_decoders import tiny_llama, tiny_mistral, tiny_opt

Make = Callable[..., SentenceEncoder]


TEMPLATE = 'This sentence : "{sentence}" means in one word:"'


SENTENCES = ["A dog runs.", "Someone plays a guitar in the park", "x", "Two men are sitting", "Go on"]


FAMILIES = pytest.mark.parametrize("make", [tiny_opt, tiny_llama, tiny_mistral])


def lora(**settings: Any) -> LoraConfig:
    return LoraConfig(
        task_type="FEATURE_EXTRACTION", r=4, lora_alpha=8, target_modules="all-linear", **settings
    )


def decoder(make: Make, **settings: Any) -> SentenceEncoder:
    return make(template=TEMPLATE, pooling="last_token", **settings).eval()


def cosines(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    return np.asarray((one * two).sum(axis=1) / lengths)
