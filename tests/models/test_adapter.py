"""Initial values of adapters."""

from __future__ import annotations

import pytest
from peft import PrefixTuningConfig

from sts_lightning.testing.tiny_bert import tiny_bert


@pytest.mark.parametrize("projection", [False, True])
def test_a_prefix_starts_at_the_scale_of_the_embeddings(projection: bool) -> None:
    settings = PrefixTuningConfig(
        task_type="FEATURE_EXTRACTION", num_virtual_tokens=200, prefix_projection=projection
    )
    encoder = tiny_bert(adapter=settings)
    named = encoder.backbone.named_parameters()
    (prefix,) = (value for name, value in named if name.endswith("prompt_encoder.default.embedding.weight"))
    scale = 1.0 if projection else encoder.plain_backbone.config.initializer_range
    assert prefix.std().item() == pytest.approx(scale, rel=0.05)
    assert prefix.requires_grad
