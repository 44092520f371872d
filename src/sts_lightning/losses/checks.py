"""Checks of what a loss declares and gives, for losses of a user's own."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from sts_lightning.errors import ConfigError
from sts_lightning.losses.base import LABEL_WORDS, Loss


def check_declared(loss: Loss) -> None:
    """Reject a loss that does not say which views and labels it accepts.

    Raises:
        ConfigError: See above; the message says what to add to the class.
    """
    kinds = ", ".join(map(repr, LABEL_WORDS))
    declared: dict[str, tuple[str, Callable[[object], bool]]] = {
        "views": ("the numbers of views that it accepts, as in views = (2,)", lambda item: type(item) is int),
        "labels": (
            f"the labels that it accepts, some of {kinds}, as in labels = ('score',)",
            lambda item: item in LABEL_WORDS,
        ),
    }
    for name, (words, is_one) in declared.items():
        value = getattr(loss, name, None)
        if not isinstance(value, tuple) or not value or not all(map(is_one, value)):
            raise ConfigError(
                f"the class {type(loss).__name__} must declare {words}; it has {value!r}.", key="loss"
            )


def check_scalar(value: object, part: nn.Module) -> None:
    """Reject what a loss or a regularizer returned that is not one number.

    Args:
        value: What it returned.
        part: The loss or the regularizer.

    Raises:
        ConfigError: It is no scalar.
    """
    name = type(part).__name__
    if not isinstance(value, Tensor):
        raise ConfigError(f"{name} gives a {type(value).__name__}, not a tensor with one number.", key="loss")
    if value.ndim != 0:
        raise ConfigError(
            f"{name} gives a tensor of shape {tuple(value.shape)}, not one number; take its mean or sum.",
            key="loss",
        )


def check_gradient(loss: Tensor, part: nn.Module) -> None:
    """Reject a loss from which no gradient leads back to the embeddings.

    Raises:
        ConfigError: See above.
    """
    if not loss.requires_grad:
        raise ConfigError(
            f"{type(part).__name__} gives a number without a gradient; compute it from the embeddings by "
            "torch, without detach().",
            key="loss",
        )
