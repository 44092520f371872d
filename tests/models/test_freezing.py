from __future__ import annotations

import pytest

from sts_lightning.choices import Frozen
from sts_lightning.errors import ConfigError
from sts_lightning.models.freezing import check_freeze, freeze, hold_mode, trains
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


def test_a_frozen_encoder_needs_a_head_and_no_regularizer() -> None:
    check_freeze("none", "PearsonLoss", has_head=False, regularized=True)
    check_freeze("encoder", "L1Loss", has_head=True, regularized=False)
    with pytest.raises(ConfigError, match="regularizer has no effect"):
        check_freeze("encoder", "L1Loss", has_head=True, regularized=True)
    with pytest.raises(ConfigError, match="PearsonLoss has no head"):
        check_freeze("encoder", "PearsonLoss", has_head=False, regularized=False)
