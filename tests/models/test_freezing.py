from __future__ import annotations

import pytest

from sts_lightning.choices import Frozen
from sts_lightning.models.freezing import freeze, hold_mode, trains
from sts_lightning.testing.tiny_bert import tiny_bert


@pytest.mark.parametrize(
    ("frozen", "weights", "dropout"),
    [("none", True, True), ("encoder", False, False), ("encoder_with_dropout", False, True)],
)
def test_weights_and_mode(frozen: Frozen, weights: bool, dropout: bool) -> None:
    encoder = freeze(tiny_bert(), frozen).train()
    hold_mode(encoder, frozen)
    assert trains(frozen) == weights
    assert all(parameter.requires_grad == weights for parameter in encoder.parameters())
    assert encoder.training == dropout
