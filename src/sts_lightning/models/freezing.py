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
from sts_lightning.errors import ConfigError
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


def check_freeze(frozen: Frozen, loss: str, has_head: bool, regularized: bool) -> None:
    """Reject a frozen encoder with a regularizer, or with a loss that has nothing to train.

    Args:
        frozen: The setting ``freeze``.
        loss: Class name of the loss, for the message.
        has_head: Whether the loss has parameters.
        regularized: Whether the run has a regularizer.

    Raises:
        ConfigError: The two do not fit together.
    """
    if trains(frozen):
        return
    if regularized:
        raise ConfigError(
            f"freeze={frozen}: a regularizer has no effect on the vectors of a frozen encoder.", key="freeze"
        )
    if not has_head:
        raise ConfigError(
            f"freeze={frozen} leaves nothing to train: {loss} has no head. "
            "Set freeze=none, or choose a loss with a head.",
            key="freeze",
        )
