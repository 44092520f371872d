"""How many tokens of a sentence are read: by the model's positions, in training and in evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from torch import nn
from transformers import PreTrainedModel

from sts_lightning.models.encoding import EncodingConfig

TRAINING_TOKENS = 256
"""Number of tokens at which training truncates a sentence by default, if the model reads longer ones."""


@dataclass(frozen=True)
class Lengths:
    """Maximum numbers of tokens of a sentence, all counted as `SentenceTokenizer` says; None for any number.

    Attributes:
        positions: For which the model has positions.
        model: Which the model is meant to read, at most ``positions``.
        train: After which training truncates.
        eval: After which evaluation truncates.
        added: Number of tokens of a row beside a sentence, in the longest template.
        smallest: The least that leaves room for a sentence.
    """

    positions: int | None
    model: int | None
    train: int
    eval: int | None
    added: int
    smallest: int

    @classmethod
    def of(
        cls, config: EncodingConfig, added: int, smallest: int, positions: int | None, prefix: int
    ) -> Self:
        """Compute the lengths of an encoder.

        Args:
            config: Its settings.
            added: Number of tokens of a row beside a sentence.
            smallest: The least that leaves room for a sentence.
            positions: Number of tokens of a row for which the model has positions, None for any.
            prefix: Number of positions that a trained prefix takes of these.

        Raises:
            ValueError: A length leaves no room for a sentence, or the model has no positions for it.
        """
        of_positions = None if positions is None else positions - added - prefix
        of_row = None if config.row_limit is None else config.row_limit - added
        known = [count for count in (config.limit, of_positions, of_row) if count is not None]
        model = min(known, default=None)
        train = config.max_length
        if train is None:
            train = TRAINING_TOKENS if model is None else min(TRAINING_TOKENS, model)
        evaluation = model if config.max_length is None else train
        lengths = cls(of_positions, model, train, evaluation, added, smallest)
        if train < smallest:
            raise ValueError(lengths._out_of_range(train))
        if of_positions is not None and train > of_positions:
            raise ValueError(
                f"max_length must be at most {of_positions}, got {train}: the model reads {positions} "
                f"tokens, up to {added + prefix} of them template, special tokens and trained prefix."
            )
        given = config.evaluation_length
        return lengths if given == "training" else lengths.with_evaluation(given)

    def with_evaluation(self, count: int | None) -> Self:
        """Return the lengths with another one of evaluation; None for what the model is meant to read.

        Raises:
            ValueError: It leaves no room for a sentence, or the model has no positions for it.
        """
        if count is not None and not self.smallest <= count <= (self.positions or count):
            most = "" if self.positions is None else f" and at most {self.positions}"
            raise ValueError(self._out_of_range(count, most))
        return replace(self, eval=self.model if count is None else count)

    def _out_of_range(self, count: int, most: str = "") -> str:
        added = f" The tokenizer adds {self.smallest - 1} tokens to each row." if self.smallest > 3 else ""
        return f"max_length must be at least {self.smallest}{most}, got {count}.{added}"


def position_offset(backbone: PreTrainedModel) -> int:
    """Return the position of a row's first token: RoBERTa's family counts from after its padding index."""
    for module in backbone.modules():
        table = getattr(module, "position_embeddings", None)
        if isinstance(table, nn.Embedding):
            return 0 if table.padding_idx is None else table.padding_idx + 1
    return 0


def most_positions(backbone: PreTrainedModel, bidirectional_layers: int = 0) -> int | None:
    """Return the maximum number of tokens of a row, None if there is no limit (T5, XLNet).

    In RoBERTa's family the positions up to the padding index are not for tokens.

    Args:
        backbone: Model.
        bidirectional_layers: Number of last layers that are made bidirectional, -1 for all. A row has to fit
            into their attention windows: the mask of the last token, which all tokens get, covers no more.
    """
    config, windows = backbone.config, list[int | None]()
    names = ("max_encoder_position_embeddings", "max_position_embeddings")
    declared = [getattr(config, name, None) for name in names]
    known = [count - position_offset(backbone) for count in declared if isinstance(count, int) and count > 0]
    if bidirectional_layers:
        from sts_lightning.models.compute.bidirectional import layer_windows

        all_windows: Sequence[int | None] = layer_windows(config, config.num_hidden_layers)
        windows += all_windows if bidirectional_layers == -1 else all_windows[-bidirectional_layers:]
    return min([*known[:1], *(count for count in windows if count is not None)], default=None)
