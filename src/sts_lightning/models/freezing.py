"""Frozen encoders: which weights train, in which mode the encoder runs, and what fits a frozen one.

========================  ==============  ===============================
``freeze``                weights train   dropout of the encoder
========================  ==============  ===============================
``none``                  yes             in training
``encoder``               no              never
``encoder_with_dropout``  no              in training (STS-Regression)
========================  ==============  ===============================

The loss head and the regularizer are not part of the encoder and always train.
"""

from __future__ import annotations

from sts_lightning.choices import Frozen
from sts_lightning.models.encoder import SentenceEncoder


def trains(frozen: Frozen) -> bool:
    """Return whether weights of the encoder train."""
    return frozen == "none"


def freeze(encoder: SentenceEncoder, frozen: Frozen) -> SentenceEncoder:
    """Exclude the weights of a frozen encoder from training, in place."""
    if not trains(frozen):
        encoder.requires_grad_(False)
    return encoder


def hold_mode(encoder: SentenceEncoder, frozen: Frozen) -> None:
    """Put an encoder that is frozen without dropout back into evaluation mode; call it after `train()`."""
    if frozen == "encoder":
        encoder.eval()
