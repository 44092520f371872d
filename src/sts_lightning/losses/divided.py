"""Mean of a loss over shards of the batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sts_lightning.core.choices import EMPTY
from sts_lightning.core.processes import Shard
from sts_lightning.losses.base import Loss, check, require

DIVIDED = ("sentence_ids",)
"""Further arguments of a loss with a value for each example, (V, B), which are divided like the views."""


class DividedLoss(Loss):
    r"""Mean of a loss over equal shards of the batch; examples of different shards are not compared.

    .. math:: L = \frac{1}{S} \sum_{s=1}^S L_{\text{inner}}(\text{shard } s)

    Data-parallel training on S devices computes it where each device takes its negatives from its shard of
    the batch, as the code of `AnglE
    <https://github.com/SeanLee97/AnglE/blob/f0efcb75c668d41510f9f70fc9db44c9966e1d16/angle_emb/angle.py#L402-L407>`_
    and BeLLM on four devices. Here the shards are consecutive examples, on any number of devices; their sizes
    differ by at most one. `metrics` has the means of the inner loss's quantities.

    With ``drop_duplicates`` the loss of a shard is that of its rows without a sentence that the shard had
    before, in an earlier row or in the row itself, as in the `collator of AnglE's code
    <https://github.com/SeanLee97/AnglE/blob/010e3692ed8cd2995ff7510f8d731f0fc3722a1f/angle_emb/angle.py#L597-L648>`_
    since March 2024, which BeLLM uses. Sentences of a row that is left out have been had up to its first
    repeated one; a shard that keeps none has no term. Equal means equal texts here, equal tokens of the
    truncated text there.

    Use it to repeat such a published run on other hardware. Otherwise the whole batch has more to compare at
    the same cost.

    Args:
        inner: The loss; it must not require arguments of the whole batch (a teacher, a queue).
        shards: S, at least 1.
        drop_duplicates: Whether to leave out rows with a sentence that their shard had before.

    Raises:
        ValueError: The loss is missing or cannot be computed from a shard, or the number is out of range.

    Example:
        >>> loss = DividedLoss(InfoNCELoss(), shards=4)
        >>> value = loss(torch.randn(2, 8, 16))
    """

    def __init__(self, inner: Loss | None = None, shards: int = 4, drop_duplicates: bool = False) -> None:
        super().__init__()
        if inner is None:
            raise ValueError("inner is empty, but divided needs a loss of each shard: loss@loss.inner=NAME.")
        check(shards >= 1, "be at least 1", shards=shards)
        required = inner.needs.required_inputs
        if not set(required) <= set(DIVIDED):
            raise ValueError(
                f"inner is {type(inner).__name__}, which needs {', '.join(required)} of the whole "
                "batch; choose another loss."
            )
        self.inner = inner
        self.shards = shards
        self.drop_duplicates = drop_duplicates
        self.needs = replace(
            inner.needs,
            required_inputs=DIVIDED if drop_duplicates else required,
            optional_inputs=tuple(
                name for name in inner.needs.optional_inputs if name in DIVIDED and not drop_duplicates
            ),
            min_batch_for_gradient=shards * inner.needs.min_batch_for_gradient,
        )

    def forward(self, views: Tensor, labels: Tensor | None = None, **further: Tensor) -> Tensor:
        """Compute the mean of the inner loss over shards; a small batch has fewer of them.

        Args:
            views: Embeddings, (V, B, D).
            labels: Scores or classes, (B,), or None.
            **further: Arguments that the inner loss takes, (V, B).

        Raises:
            ValueError: ``sentence_ids`` are absent, but ``drop_duplicates`` needs them.
        """
        values = [
            self.inner(views[:, rows], None if labels is None else labels[rows], **arguments)
            for rows, arguments in self._divide(views, further)
        ]
        return torch.stack(values).mean() if values else 0 * views.sum()

    def metrics(self, views: Tensor, labels: Tensor | None = None, **inputs: Any) -> dict[str, Tensor]:
        """Return the means of the inner loss's quantities over shards."""
        of_shards = [
            self.inner.metrics(views[:, rows], None if labels is None else labels[rows], **arguments)
            for rows, arguments in self._divide(views, inputs)
        ]
        names = of_shards[0] if of_shards else ()
        return {name: torch.stack([each[name].float() for each in of_shards]).mean() for name in names}

    def _divide(
        self, views: Tensor, further: Mapping[str, Tensor]
    ) -> Iterator[tuple[slice | Tensor, dict[str, Tensor]]]:
        """Yield the rows of each shard that has any, and their further arguments."""
        shards = min(self.shards, max(1, views.shape[1] // self.inner.needs.min_batch))
        for shard in range(shards):
            whole = Shard(shard, shards).slice_of(views.shape[1])
            rows: slice | Tensor = whole
            if self.drop_duplicates:
                new = _new_rows(require(self, sentence_ids=further.get("sentence_ids"))[: len(views)], whole)
                if not new:  # as the few rows of a small last batch may be
                    continue
                rows = torch.tensor(new, device=views.device)
            yield rows, {name: value[:, rows] for name, value in self.inner.needs.select(further).items()}


def _new_rows(sentence_ids: Tensor, shard: slice) -> list[int]:
    """Return the rows of a shard without a sentence that was met before; a row with one is read up to it."""
    met: set[int] = set()
    new = []
    for row, sentences in enumerate(sentence_ids[:, shard].T.tolist(), shard.start):
        for sentence in sentences:
            if sentence in met:
                break
            if sentence != EMPTY:  # of which there may be many
                met.add(sentence)
        else:
            new.append(row)
    return new
