"""Curves of the losses on the documentation site: their numbers by hand, and the drawings."""

from __future__ import annotations

import loss_curves

from sts_lightning.losses import all_losses
from tests.unit.repository.test_loss_curves import HEADS, POSITIVES, SCORES


def test_losses_without_a_curve_are_those_that_depend_on_more_than_cosines() -> None:
    without = {name for name in all_losses() if loss_curves.curves(name) is None}
    needing = {name for name, kind in all_losses().items() if kind.needs.required_inputs}
    assert without >= needing | {*loss_curves.BY_COORDINATES, *loss_curves.OF_OTHERS}
    assert not without & {*SCORES, *POSITIVES, *HEADS, "gist", "translated_relu"}
