"""Targets that a run folder may name."""

from __future__ import annotations

import pytest

from sts_lightning.config.allowed import is_known
from sts_lightning.losses import all_losses


def test_every_loss_is_known() -> None:
    """A new loss needs no entry anywhere."""
    for loss in all_losses().values():
        assert is_known(f"{loss.__module__}.{loss.__qualname__}", ("loss",))


@pytest.mark.parametrize(
    "target",
    [
        "sts_lightning.losses.mix.InfoNCELoss",  # imported there, if at all
        "sts_lightning.losses.mix.Loss",
        "sts_lightning.losses.mix.torch.load",
        "sts_lightning.losses.mix",
        "sts_lightning.losses...mix.MixLoss",
        "sts_lightning.losses.mix.MixLoss\n",
        " sts_lightning.losses.mix.MixLoss",
        "sts_lightning.losses.absent.AbsentLoss",
        "sts_lightning.losses.mix.MixLoss.__init__",
        "torch.nn.CosineEmbeddingLoss",
        "sts_lightning.data.sts.STSData",
    ],
)
def test_only_exact_names_are_known(target: str) -> None:
    assert not is_known(target, ("loss",))


def test_each_class_is_known_at_its_place_only() -> None:
    assert is_known("peft.LoraConfig", ("model", "adapter"))
    assert not is_known("peft.LoraConfig", ("model",))
    assert not is_known("peft.tuners.LoraConfig", ("model", "adapter"))
    assert not is_known("peft.get_peft_model", ("model", "adapter"))
    assert is_known("lightning.pytorch.callbacks.EarlyStopping", ("callbacks", "mine"))
    assert not is_known("lightning.pytorch.callbacks.EarlyStopping", ("logger", "mine"))
    assert not is_known("lightning.pytorch.callbacks.EarlyStopping", ("callbacks", "mine", "deeper"))
    assert not is_known("sts_lightning.testing.tiny_decoders._load", ("model",))
    assert not is_known("sts_lightning.models.backbone.load_backbone", ("model",))
