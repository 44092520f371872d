"""Base class and helpers of all losses."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sts_lightning.core.choices import EMPTY, LabelKind
from sts_lightning.core.errors import ConfigError

LABEL_WORDS: dict[LabelKind, str] = {"none": "no label", "score": "a similarity score", "class": "a class"}

TOP_SCORE = 5.0
"""The highest similarity score; the lowest is 0."""


class Loss(nn.Module, ABC):
    """Base class of losses: functions of the embeddings of a batch and, if any, its labels.

    A subclass declares the views and labels that it needs. A configuration that combines it with other data
    is thus rejected before any weights are loaded. A loss that needs the size D of an embedding or the
    highest label, as with a head, has the constructor arguments ``dimension`` and ``top_label``. They follow
    from the model and the data and are not settings.

    Attributes:
        views: Numbers of views V that the loss accepts.
        more_views: Whether it accepts every larger number too, as with any number of hard negatives.
        labels: Labels that the loss accepts.
        takes: Names of further arguments of `forward`, from the batch (``sentence_ids``), a queue
            (``negatives``) or an auxiliary model (``teacher``).
        requires: Those of them without which the loss cannot be computed.
        least_batch: Smallest number of rows with a gradient: 2 for a loss that compares rows, 1 for a loss of
            each row alone.
        least_rows: Smallest number of rows for which it is defined.
        compares: Whether it compares the labels of a batch, and so has no gradient where all are equal.
        observed: Further quantities of the last call, such as the accuracy of a head; logged in training.
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
        labels = " or ".join(LABEL_WORDS[label] for label in self.labels)
        views = f"{min(self.views)} or more" if self.more_views else " or ".join(map(str, self.views))
        return f"{views} views and {labels}"

    def check_dimension(self, dimension: int) -> None:
        """Raise a ValueError if the loss cannot read embeddings of this size; most losses read any."""

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


def repeats(views: Tensor, sentence_ids: Tensor | None, among: slice = slice(1, None)) -> Tensor:
    """Find the candidates that are no negatives: their text is that of the anchor or of a positive of it.

    Args:
        views: Anchors, positives[, hard negatives ...], (V, B, D).
        sentence_ids: Numbers of the sentences, (V, B), equal for equal texts, which may be followed by K rows
            with the numbers of other positives of each anchor, (V + K, B); None finds nothing. Places
            that are `EMPTY` are found for every anchor.
        among: Views of the candidates.

    Returns:
        A mask (B, C) of anchors by candidates, in the order of ``views[among].flatten(0, 1)``. It never
        includes the positive of an anchor or the anchor itself, but may include its hard negative.
    """
    count, size = len(views[among]), views.shape[1]
    if sentence_ids is None:
        return torch.zeros(size, count * size, dtype=torch.bool, device=views.device)
    candidates = sentence_ids[: len(views)][among].flatten()
    equal = (candidates == sentence_ids[0, :, None]) | (candidates == sentence_ids[1, :, None])
    equal |= candidates == EMPTY
    for further in sentence_ids[len(views) :]:  # few, since the rows of an anchor meet in few batches
        equal |= candidates == further[:, None]
    return equal & ~torch.eye(size, count * size, dtype=torch.bool, device=views.device)


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
    """Return the named argument; raise a ValueError if it is None."""
    ((name, value),) = given.items()
    if value is None:
        raise ValueError(f"{type(loss).__name__} needs {name}, but got none.")
    return value


def require_negatives(loss: Loss, views: Tensor) -> None:
    """Reject a batch of one row without hard negatives, which has no negatives."""
    if views.shape[1] < 2 and len(views) < 3:
        raise ValueError(f"{type(loss).__name__} needs at least two rows, or three views; got one row.")


def check(holds: bool, must: str, **argument: object) -> None:
    """Raise a ValueError that begins with the name of the argument, unless the condition holds."""
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
    """Reject a loss that does not declare the views and labels that it accepts, as tuples.

    Raises:
        ConfigError: A declaration is missing; the message says what to add to the class.
    """
    views, labels = getattr(loss, "views", None), getattr(loss, "labels", None)
    known = ", ".join(map(repr, LABEL_WORDS))
    if not (views and isinstance(views, tuple) and all(type(number) is int for number in views)):
        text = f"the numbers of views that it accepts, as in views = (2,); it has {views!r}."
    elif not (labels and isinstance(labels, tuple) and set(labels) <= LABEL_WORDS.keys()):
        text = f"the labels that it accepts, some of {known}, as in labels = ('score',); it has {labels!r}."
    else:
        return
    raise ConfigError(f"the class {type(loss).__name__} must declare {text}", key="loss")


def check_scalar(value: object, part: nn.Module, trains: bool = False) -> None:
    """Reject a value of a loss or regularizer that is not a scalar, or has no gradient in training.

    Args:
        value: Returned value.
        part: The loss or the regularizer.
        trains: Whether the value must have a gradient.

    Raises:
        ConfigError: The value is rejected; the message says why.
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
