"""Base class and helpers of all losses."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sts_lightning.core.choices import LabelKind
from sts_lightning.core.errors import ConfigError

LABEL_WORDS: dict[LabelKind, str] = {
    "none": "no label",
    "score": "a similarity score",
    "class": "a class",
}

TOP_SCORE = 5.0
"""The highest similarity score; the lowest is 0."""


class Loss(nn.Module, ABC):
    """Base class of losses: functions of the embeddings of a batch and, if any, its labels.

    A subclass declares the views and labels it needs, so that a configuration that pairs it with data it
    cannot use is rejected before any weights are loaded. A loss that needs the size D of an embedding or the
    highest label, as one with a head does, has the constructor arguments ``dimension`` and ``top_label``.
    They follow from the model and the data and are no settings.

    Attributes:
        views: Numbers of views V that the loss accepts.
        more_views: Whether it also accepts every larger number, as a loss with any number of hard negatives.
        labels: Kinds of label that the loss accepts.
        takes: Names of further arguments of `forward` that the batch (``sentence_ids``), a queue
            or an auxiliary model supplies (``negatives``).
        requires: Those without which the loss cannot be computed.
        least_batch: Number of rows below which the loss has no gradient: 2 for one that compares rows, 1 for
            one of each row alone, which is defined on equal labels, too.
        least_rows: Number of rows below which it may have no value.
        compares: Whether it compares the labels of a batch, and so has no gradient where all are equal.
        observed: Quantities of the last call besides the loss, such as the accuracy of a head; logged in
            training.
    """

    views: tuple[int, ...]
    more_views: bool = False
    labels: tuple[LabelKind, ...]
    takes: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    least_batch: int = 2
    least_rows: int = 1
    compares: bool = False

    def __init__(self) -> None:
        super().__init__()
        self.observed: dict[str, Tensor] = {}

    def needs(self) -> str:
        """Return the accepted views and labels in words, for messages."""
        kinds = " or ".join(LABEL_WORDS[kind] for kind in self.labels)
        views = f"{min(self.views)} or more" if self.more_views else " or ".join(map(str, self.views))
        return f"{views} views and {kinds}"

    def check_dimension(self, dimension: int) -> None:
        """Reject embeddings of a size that the loss cannot read; most losses read any.

        Args:
            dimension: D, the size of an embedding.

        Raises:
            ValueError: The loss cannot read it.
        """

    @abstractmethod
    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of a batch.

        Args:
            views: Embeddings, shape (V, B, D), any floating dtype.
            labels: Scores (float) or classes (int64), shape (B,); None where there are no labels.

        Returns:
            A scalar in float32 (in float64 for float64 embeddings).
        """


def accepts(loss: Loss | type[Loss], num_views: int) -> bool:
    """Return whether a loss accepts a number of views."""
    return num_views in loss.views or (loss.more_views and num_views > max(loss.views))


def repeats(views: Tensor, sentence_ids: Tensor | None) -> Tensor:
    """Find the candidates that are no negatives, since their text is that of the positive or the anchor.

    Args:
        views: Anchors, positives[, hard negatives ...], (V, B, D).
        sentence_ids: Numbers of the sentences, (V, B), equal for equal texts; None finds nothing.

    Returns:
        A mask (B, (V - 1) * B) of anchors by candidates, in the order of ``views[1:].flatten(0, 1)``. An
        anchor's own positive is never in it, its own hard negative may be.
    """
    count, size = len(views) - 1, views.shape[1]
    if sentence_ids is None:
        return torch.zeros(size, count * size, dtype=torch.bool, device=views.device)
    candidates = sentence_ids[1:].flatten()
    found = (candidates == sentence_ids[0, :, None]) | (candidates == sentence_ids[1, :, None])
    return found & ~torch.eye(size, count * size, dtype=torch.bool, device=views.device)


def upcast(tensor: Tensor) -> Tensor:
    """Upcast to float32, the precision of all losses; float64 is left as it is."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def cosine_rows(first: Tensor, second: Tensor) -> Tensor:
    """Compute the cosines of corresponding rows, at least in float32: (B, D), (B, D) -> (B,)."""
    return F.cosine_similarity(upcast(first), upcast(second), dim=-1)


def cosine_matrix(first: Tensor, second: Tensor) -> Tensor:
    """Compute the cosines of all rows with all rows, at least in float32: (B, D), (C, D) -> (B, C)."""
    return F.normalize(upcast(first), dim=-1) @ F.normalize(upcast(second), dim=-1).T


def require(loss: Loss, **given: Tensor | None) -> Tensor:
    """Return the one argument that is named.

    Raises:
        ValueError: It is None.
    """
    ((name, value),) = given.items()
    if value is None:
        raise ValueError(f"{type(loss).__name__} needs {name}, but got none.")
    return value


def require_negatives(loss: Loss, views: Tensor) -> None:
    """Reject a batch of one row without hard negatives, which has no negatives."""
    if views.shape[1] < 2 and len(views) < 3:
        raise ValueError(f"{type(loss).__name__} needs at least two rows, or three views; got one row.")


def check(holds: bool, must: str, **argument: object) -> None:
    """Raise a `ValueError` that begins with the name of the argument, unless the condition holds."""
    ((name, value),) = argument.items()
    if not holds:
        raise ValueError(f"{name} must {must}, got {value!r}.")


def positive(**arguments: float) -> None:
    """Reject arguments that are not positive and finite."""
    for name, value in arguments.items():
        check(0 < value < math.inf, "be positive and finite", **{name: value})


def not_negative(**arguments: float) -> None:
    """Reject arguments that are not finite, or negative."""
    for name, value in arguments.items():
        check(0 <= value < math.inf, "be finite and not negative", **{name: value})


def one_of(choices: Any, **arguments: object) -> None:
    """Reject arguments that are none of the values of a `Literal`."""
    for name, value in arguments.items():
        check(value in get_args(choices), f"be one of {', '.join(get_args(choices))}", **{name: value})


def check_declared(loss: Loss) -> None:
    """Reject a loss that does not say which views and labels it accepts, as tuples.

    Raises:
        ConfigError: See above; the message says what to add to the class.
    """
    views, labels = getattr(loss, "views", None), getattr(loss, "labels", None)
    kinds = ", ".join(map(repr, LABEL_WORDS))
    if not (views and isinstance(views, tuple) and all(type(number) is int for number in views)):
        text = f"the numbers of views that it accepts, as in views = (2,); it has {views!r}."
    elif not (labels and isinstance(labels, tuple) and set(labels) <= LABEL_WORDS.keys()):
        text = f"the labels that it accepts, some of {kinds}, as in labels = ('score',); it has {labels!r}."
    else:
        return
    raise ConfigError(f"the class {type(loss).__name__} must declare {text}", key="loss")


def check_scalar(value: object, part: nn.Module, trains: bool = False) -> None:
    """Reject what a loss or a regularizer returned that is not one number, or from which none can be trained.

    Args:
        value: What it returned.
        part: The loss or the regularizer.
        trains: Whether a gradient must lead from it to the embeddings.

    Raises:
        ConfigError: See above.
    """
    if isinstance(value, Tensor) and value.ndim == 0 and (value.requires_grad or not trains):
        return
    if not isinstance(value, Tensor):
        what = f"a {type(value).__name__}, not a tensor with one number."
    elif value.ndim:
        what = f"a tensor of shape {tuple(value.shape)}, not one number; take its mean or sum."
    else:
        what = "a number without a gradient; compute it from the embeddings by torch, without detach()."
    raise ConfigError(f"{type(part).__name__} gives {what}", key="loss")
