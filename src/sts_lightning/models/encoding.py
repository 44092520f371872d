"""`EncodingConfig`: what makes a vector of a sentence, besides the backbone's weights and its tokenizer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeVar

from sts_lightning.core.choices import Denoise, DtypeName, Quantization, TextEdit
from sts_lightning.core.errors import check_choice
from sts_lightning.core.files import as_type
from sts_lightning.models.pooling import Pooling, Projection
from sts_lightning.models.text.template import MASK, SLOT, role_template

log = logging.getLogger(__name__)


OF_EVALUATION = {"group": "evaluation"}
"""Metadata of a setting that the group ``evaluation`` of a configuration has, not ``model`` or ``prompt``."""


@dataclass(frozen=True)
class EncodingConfig:
    """Settings of a `SentenceEncoder`; a model folder, a fingerprint and a model card hold `asdict` of it.

    A new setting is a line here, and read where it acts. Lengths count tokens of a sentence, without a
    template the special tokens too.

    Attributes:
        pooling: How the hidden states of a sentence become one vector (see `Pooling`).
        layer: Layer whose output is pooled: -1 the last one, after the final norm; -2 the one below it, ...
        template: Text with the slot ``{sentence}`` that is put around each sentence, or None.
        query: Prefix of queries, such as ``query: ``, optionally with ``{sentence}`` at its end; empty for
            the bare sentence, None for ``template``. Training puts it before the first of several columns.
        document: The same of the texts that answer them: the further columns.
        view_templates: Template of each view in training; by default ``template`` for all. Beginnings of the
            first one take no rows of their own where that is the same (see `SentenceTokenizer`).
        denoise: Vector that is subtracted in training (see `Denoise`); gradient flows through both.
        denoise_evaluation: Whether it is subtracted in evaluation too.
        projection: Layers on top: ``none``; ``train``, dropped in evaluation, as in unsupervised SimCSE;
            ``batch_norm``, dropped too, as in InfoCSE; ``always``, as in supervised SimCSE.
        normalize: Whether vectors are scaled to length 1, in training too.
        truncate_dim: Number of values of a vector that are kept, the first ones, after ``normalize``; None
            for all. A loss, too, sees these alone; in sentence-transformers only ``encode`` truncates.
        bidirectional_layers: Number of last layers of a causal model in which tokens attend to later tokens
            too; -1 for all.
        text_edit: Edit of sentences in evaluation (see `edit`); training never edits.
        max_length: Maximum length in training; None for what the model is meant to read, at most
            `TRAINING_TOKENS`.
        evaluation_length: Maximum length in evaluation: ``training`` for that of training, None for what the
            model is meant to read.
        limit: Maximum length that the model is meant to read, if that is less than it has positions for.
        row_limit: The same of a row, special tokens and template included.

    Raises:
        ValueError: A setting is out of range, or two do not go together; the message begins with its name.
    """

    pooling: Pooling = "mean"
    layer: int = -1
    template: str | None = None
    query: str | None = None
    document: str | None = None
    view_templates: tuple[str, ...] | None = None
    denoise: Denoise = "none"
    denoise_evaluation: bool = False
    projection: Projection = "none"
    normalize: bool = False
    truncate_dim: int | None = None
    bidirectional_layers: int = 0
    text_edit: TextEdit = field(default="none", metadata=OF_EVALUATION)
    max_length: int | None = 128
    evaluation_length: int | Literal["training"] | None = field(default="training", metadata=OF_EVALUATION)
    limit: int | None = None
    row_limit: int | None = None

    def __post_init__(self) -> None:
        if self.view_templates is not None:
            object.__setattr__(self, "view_templates", tuple(self.view_templates))
        choices = {"pooling": Pooling, "projection": Projection, "denoise": Denoise, "text_edit": TextEdit}
        for name, known in choices.items():
            check_choice(name, getattr(self, name), known)
        if self.layer > -1:
            raise ValueError(f"layer must be negative, -1 for the last layer, got {self.layer}.")
        if self.layer != -1 and self.pooling == "first_last_mean":
            raise ValueError(f"layer must be -1 with pooling 'first_last_mean', got {self.layer}.")
        if self.bidirectional_layers < -1:
            raise ValueError(f"bidirectional_layers must be at least -1, got {self.bidirectional_layers}.")
        for name in ("truncate_dim", "limit", "row_limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}.")
        self._check_texts()

    def _check_texts(self) -> None:
        texts = [self.template or "", *(self.view_templates or [])]
        if self.pooling == "mask_token" and not all(MASK in text for text in texts):
            raise ValueError(f"pooling 'mask_token' needs a template with {MASK}, such as prompt=promptbert.")
        if self.denoise != "none" and self.template is None:
            raise ValueError(f"denoise {self.denoise!r} needs a template.")
        if self.view_templates is not None and self.template is None:
            raise ValueError("view_templates need a template too, for evaluation.")
        for role in list(self.roles)[:1]:
            excluded = {
                f"denoise {self.denoise!r}": self.denoise != "none",
                "view_templates": self.view_templates is not None,
                "a template with text after the sentence": not (self.template or SLOT).endswith(SLOT),
            }
            for what in (name for name, is_set in excluded.items() if is_set):
                raise ValueError(f"{role} is a prompt by role, which does not go with {what}.")
            if self.pooling == "mask_token":
                raise ValueError(f"{role} has no mask token for pooling 'mask_token'.")

    @property
    def roles(self) -> dict[str, str]:
        """Template by role, of the roles that have one of their own."""
        given = {"query": self.query, "document": self.document}
        # Without a template the bare sentence is what a role without a prompt has.
        return {
            role: role_template(role, text)
            for role, text in given.items()
            if text is not None and (self.template is not None or text not in ("", SLOT))
        }

    @property
    def subtracts(self) -> bool:
        """Whether evaluation subtracts the vector of the bare template."""
        return self.denoise_evaluation and self.denoise != "none"

    def changed(self, *allowed: str) -> dict[str, Any]:
        """Return the settings that are not the defaults, without those that are ``allowed``."""
        default = EncodingConfig()
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value
            for name, value in values.items()
            if name not in allowed and value != getattr(default, name)
        }

    def as_json(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any], source: str) -> EncodingConfig:
        """Read what `as_json` of this or another version returned.

        A setting that is missing has its default; an unknown one is a warning.

        Args:
            values: The settings.
            source: Where they stand, for messages.

        Raises:
            ValueError: A value is of another type, or out of range; the message begins with its name.
        """
        known = {field.name for field in fields(cls)}
        unknown = sorted(values.keys() - known)
        if unknown:
            log.warning("WARNING: %s: this version has no %s; left out.", source, ", ".join(unknown))
        config: EncodingConfig = as_type({name: values[name] for name in values.keys() & known}, cls)
        return config


@dataclass(frozen=True)
class Base:
    """Where the backbone's own weights come from.

    Attributes:
        name: Local folder, or id on the model hub with ``@commit``; None for weights that a function made.
        dtype: dtype of the weights, whatever that of the files; compute dtype of quantised ones.
        quantization: Quantisation of the linear layers.
        config: Attributes of the model's configuration to set, such as ``hidden_dropout_prob``, and
            ``attn_implementation`` (see `Attention`).
    """

    name: str | None = None
    dtype: DtypeName = "float32"
    quantization: Quantization = "none"
    config: Mapping[str, Any] = field(default_factory=dict)


Function = TypeVar("Function", bound=Callable[..., Any])


def takes_settings(*of: type, optional: bool = False) -> Callable[[Function], Function]:
    """Declare that the further keyword arguments of a function are the fields of dataclasses.

    The check of a configuration reads their types from there.

    Args:
        *of: The dataclasses.
        optional: Whether each may be None too.
    """

    def declare(function: Function) -> Function:
        function.further_settings = (of, optional)  # type: ignore[attr-defined]
        return function

    return declare
