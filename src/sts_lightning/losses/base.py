"""Base class and helpers of all losses."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sts_lightning.core.choices import LabelKind
from sts_lightning.core.errors import ConfigError

LABEL_WORDS: dict[LabelKind, str] = {"none": "no label", "score": "a similarity score", "class": "a class"}

FROM_BATCH = ("sentence_ids", "part")
"""Further arguments of losses that come with the batch, and from no auxiliary model."""

TOP_SCORE = 5.0
"""The highest similarity score; the lowest is 0."""


@dataclass(frozen=True)
class Needs:
    """What a loss accepts; without a declaration it accepts nothing.

    Attributes:
        views: Numbers of views V.
        labels: Labels.
        more_views: Whether it accepts every larger number of views too, as with any number of hard negatives.
        optional_inputs: Names of further arguments of `Loss.forward`, from the batch (``sentence_ids``), a
            queue (``negatives``) or an auxiliary model (``teacher``).
        required_inputs: Those without which the loss cannot be computed.
        min_batch_for_gradient: Smallest number of rows with a gradient: 2 for a loss that compares rows, 1
            for a loss of each row alone.
        min_batch: Smallest number of rows for which it is defined.
        different_labels: Whether it compares the labels of a batch, and so has no gradient where all are
            equal.
        counts_empty_places: Whether it reads the empty texts of rows with few hard negatives, which the mask
            of repeated sentences hides from a contrastive loss.
    """

    views: tuple[int, ...] = ()
    labels: tuple[LabelKind, ...] = ()
    more_views: bool = False
    optional_inputs: tuple[str, ...] = ()
    required_inputs: tuple[str, ...] = ()
    min_batch_for_gradient: int = 2
    min_batch: int = 1
    different_labels: bool = False
    counts_empty_places: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        """Further arguments of `Loss.forward`, the required ones first."""
        return self.required_inputs + self.optional_inputs

    def accepts(self, num_views: int) -> bool:
        """Return whether a number of views is accepted."""
        return num_views in self.views or (self.more_views and num_views > max(self.views))

    def select(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of the given arguments that the loss takes."""
        return {name: given[name] for name in self.inputs if name in given}

    @staticmethod
    def both(parts: Iterable[Needs]) -> Needs:
        """Return the needs of losses that read the same batch."""
        every = list(parts)
        views = dict.fromkeys(number for needs in every for number in needs.views)
        return Needs._combined(
            every,
            views=tuple(number for number in views if all(needs.accepts(number) for needs in every)),
            labels=tuple(kind for kind in every[0].labels if all(kind in needs.labels for needs in every)),
            more_views=all(needs.more_views for needs in every),
            min_batch_for_gradient=max(needs.min_batch_for_gradient for needs in every),
            min_batch=max(needs.min_batch for needs in every),
        )

    @staticmethod
    def any(parts: Iterable[Needs]) -> Needs:
        """Return the needs of losses of which one reads each batch."""
        every = list(parts)
        return Needs._combined(
            every,
            views=tuple(dict.fromkeys(number for needs in every for number in needs.views)),
            labels=tuple(dict.fromkeys(label for needs in every for label in needs.labels)),
            more_views=any(needs.more_views for needs in every),
            min_batch_for_gradient=min(needs.min_batch_for_gradient for needs in every),
            min_batch=min(needs.min_batch for needs in every),
        )

    @staticmethod
    def _combined(every: Sequence[Needs], **settings: Any) -> Needs:
        required = dict.fromkeys(name for needs in every for name in needs.required_inputs)
        optional = dict.fromkeys(name for needs in every for name in needs.optional_inputs)
        return Needs(
            required_inputs=tuple(required),
            optional_inputs=tuple(name for name in optional if name not in required),
            different_labels=all(needs.different_labels for needs in every),
            counts_empty_places=any(needs.counts_empty_places for needs in every),
            **settings,
        )

    def __str__(self) -> str:
        """Return the accepted views and labels in words, for messages."""
        labels = " or ".join(LABEL_WORDS[label] for label in self.labels)
        views = f"{min(self.views)} or more" if self.more_views else " or ".join(map(str, self.views))
        return f"{views} views and {labels}"


DECLARED_IN_0_3 = {
    "views": "views",
    "labels": "labels",
    "more_views": "more_views",
    "takes": "optional_inputs",
    "requires": "required_inputs",
    "least_batch": "min_batch_for_gradient",
    "least_rows": "min_batch",
    "compares": "different_labels",
}
"""Attributes of a class by which a loss of version 0.3 declares its needs."""


class Loss(nn.Module, ABC):
    """Base class of losses: functions of the embeddings of a batch and, if any, its labels.

    A subclass declares what it needs, as in ``needs = Needs(views=(2,), labels=("score",))``. A configuration
    that combines it with other data is thus rejected before any weights are loaded. A loss that needs the
    size D of an embedding or the highest label, as with a head, has the constructor arguments ``dimension``
    and ``top_label``. They follow from the model and the data and are not settings.

    Attributes:
        needs: What the loss accepts.
    """

    needs = Needs()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = {name: vars(cls)[old] for old, name in DECLARED_IN_0_3.items() if old in vars(cls)}
        if own:
            cls.needs = replace(cls.needs, **own)

    def __init__(self) -> None:  # without the arguments of a module, as which a wrong setting would pass
        super().__init__()

    @abstractmethod
    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of a batch.

        Args:
            views: Embeddings, shape (V, B, D), any floating dtype.
            labels: Scores (float) or classes (int64), shape (B,); None where there are no labels.

        Returns:
            A scalar in float32 (in float64 for float64 embeddings).
        """

    def metrics(self, views: Tensor, labels: Tensor | None = None, **inputs: Any) -> dict[str, Tensor]:
        """Return further quantities of a batch, such as the accuracy of a head, which training logs.

        The arguments are those of `forward`.
        """
        noted: dict[str, Tensor] = getattr(self, "observed", {})  # in the last call of a loss of version 0.3
        return noted


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


def check(holds: bool, must: str, **argument: object) -> None:
    """Raise a ValueError that begins with the name of the argument, unless the condition holds."""
    ((name, value),) = argument.items()
    if not holds:
        raise ValueError(f"{name} must {must}, got {value!r}.")


def check_positive(**arguments: float) -> None:
    """Reject arguments that are not positive and finite."""
    for name, value in arguments.items():
        check(0 < value < math.inf, "be positive and finite", **{name: value})


def check_not_negative(**arguments: float) -> None:
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
    views, labels = loss.needs.views, loss.needs.labels
    known, example = ", ".join(map(repr, LABEL_WORDS)), "needs = Needs(views=(2,), labels=('score',))"
    if not (views and isinstance(views, tuple) and all(type(number) is int for number in views)):
        text = f"the numbers of views that it accepts, as in {example}; it has {views!r}."
    elif not (labels and isinstance(labels, tuple) and set(labels) <= LABEL_WORDS.keys()):
        text = f"the labels that it accepts, some of {known}, as in {example}; it has {labels!r}."
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
