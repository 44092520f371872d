"""Implementations of attention, of every family of models: equal vectors, or a rejection."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sts_lightning.core.errors import ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from tests.support.families import COMMON, NEEDED, tiny, write

TEXTS = ["a", "a long row " * 4]

ONLY_EAGER = (
    "bloom",
    "deberta",
    "deberta-v2",
    "falcon_mamba",
    "gemma2",
    "gpt_oss",
    "mamba",
    "mpnet",
    "xlnet",
)
"""Families without sdpa in transformers."""

ONLY_SDPA = ("falcon",)
"""Families whose layers keep the class that they were built with."""


def vectors(folder: str, attention: str | None) -> np.ndarray:
    config = {} if attention is None else {"attn_implementation": attention}
    encoder = SentenceEncoder.from_pretrained(folder, config=config, max_length=64).eval()
    assert attention in (None, encoder.backbone.config._attn_implementation)
    return encoder.encode(TEXTS)


@pytest.mark.parametrize("model_type", COMMON)
def test_implementations_agree_or_are_rejected(model_type: str, tmp_path: Path) -> None:
    folder = write(tiny(model_type, **NEEDED.get(model_type, {})), tmp_path)
    usual = vectors(folder, None)
    for attention, without in (("eager", ONLY_SDPA), ("sdpa", ONLY_EAGER)):
        if model_type in without:
            with pytest.raises(ConfigError, match=r"\) has no such implementation") as caught:
                vectors(folder, attention)
            assert caught.value.key == "model.config.attn_implementation"
        else:
            np.testing.assert_allclose(vectors(folder, attention), usual, atol=2e-6 * abs(usual).max())


@pytest.mark.parametrize("attention", ["flash_attention_2", "flex_attention", "org/kernel", 3])
def test_others_are_rejected(attention: object, tmp_path: Path) -> None:
    folder = Path(write(tiny("bert"), tmp_path))
    with pytest.raises(ConfigError, match=f"attn_implementation={attention}: .*; eager and sdpa are known"):
        vectors(str(folder), attention)  # type: ignore[arg-type]
