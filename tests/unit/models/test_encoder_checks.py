"""Arguments of an encoder that do not fit together."""

from __future__ import annotations

import pytest

from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.tiny_decoders import tiny_mistral
from tests.support.decoders import decoder


def test_pooling_and_template_must_fit() -> None:
    with pytest.raises(ValueError, match="needs a template"):
        tiny_bert(pooling="mask_token")
    with pytest.raises(ValueError, match="at most 512, got"):
        tiny_bert(max_length=1000)


def test_refuses_a_projection_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match=r"projection must be one of none, train, always"):
        tiny_bert(projection="mlp")  # type: ignore[arg-type]


def test_mask_pooling_needs_a_mask_in_every_template() -> None:
    with pytest.raises(ValueError, match=r"needs a template with \{mask\}"):
        tiny_bert(template="{sentence} {mask}", view_templates=["{sentence}"], pooling="mask_token")


@pytest.mark.parametrize(("layer", "message"), [(0, "be negative"), (-4, "lie between -2 and -1")])
def test_a_layer_that_is_not_there(layer: int, message: str) -> None:
    with pytest.raises(ValueError, match=f"layer must {message}"):
        decoder(tiny_mistral, layer=layer)
