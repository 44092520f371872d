"""Losses of this project in the trainer of sentence-transformers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses import CachedLossMixin
from torch import Tensor, nn

from sts_lightning.core.choices import LabelKind
from sts_lightning.losses.base import LABEL_WORDS, TOP_SCORE, Loss, check_declared
from sts_lightning.regularizers.base import Regularizer


class SentenceTransformersLoss(CachedLossMixin, nn.Module):
    """A loss of this project for ``SentenceTransformerTrainer``, which takes it as one of its own.

    A data set has a column for each view, and a column ``score`` or ``label`` where the loss takes labels. A
    loss with a head is made with ``dimension=model.get_embedding_dimension()`` and a ``top_label``, which is
    5 for scores.

    Their wrappers work too: ``MatryoshkaLoss`` truncates the vectors of ``model``.

    What `train.py` adds is absent. Copies of a text among the other rows stay negatives: the option
    ``batch_sampler="no_duplicates"`` of their trainer keeps them out of a batch. With several devices each
    computes the loss of its own rows, as their losses do by default. A last batch of one row has nothing to
    compare: ``dataloader_drop_last=True`` leaves it out.

    Example:
        >>> loss = for_sentence_transformers(model, PearsonLoss(), score_range=(0, 5))
        >>> SentenceTransformerTrainer(model, train_dataset=pairs, loss=loss).train()

    Args:
        model: The model that is trained.
        loss: Any loss that needs no auxiliary model.
        regularizer: Term that is added to it.
        score_range: Lowest and highest possible score of the data set, mapped to [0, 5], the scale of losses
            here. None: [0, 1]; but integers are classes if the loss takes classes.
        mini_batch_size: Sentences of a column whose activations are in memory at a time, by the gradient
            cache of sentence-transformers: the gradient is that of the whole batch. None: all.

    Raises:
        ValueError: The loss or the regularizer needs what only `train.py` has, or does not fit the model. In
            training: the columns or labels do not fit the loss, or a score is out of range.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        loss: Loss,
        regularizer: Regularizer | None = None,
        score_range: Sequence[float] | None = None,
        mini_batch_size: int | None = None,
    ) -> None:
        super().__init__()
        name = type(loss).__name__
        check_declared(loss)
        if loss.needs.required_inputs:
            what = ", ".join(loss.needs.required_inputs)
            raise ValueError(f"{name} needs {what}, which only train.py gives to losses.")
        if regularizer is not None and regularizer.needs_phases:
            raise ValueError("regularizer: phase1 and phase2 differ, and only train.py finds the switch.")
        if mini_batch_size is not None and any(True for _ in loss.parameters()):
            # Their cache differentiates the loss before the trainer scales it for fp16 or accumulation.
            raise ValueError(
                f"mini_batch_size must be None for {name}, whose head would get a wrong gradient."
            )
        self.model = model
        self.loss = loss
        self.regularizer = regularizer
        self.score_range = score_range
        self.uses_gradient_cache = mini_batch_size is not None
        self.mini_batch_size = mini_batch_size or 0

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None) -> Tensor:
        """Compute the loss of tokenised columns and the labels of their rows."""
        if self.uses_gradient_cache:
            return self.forward_cached(sentence_features, labels)
        columns = [self.model(features)["sentence_embedding"] for features in sentence_features]
        return self.compute_loss_from_embeddings(columns, labels)

    def calculate_loss(
        self, reps: list[list[Tensor]], labels: Tensor | None = None, *, with_backward: bool = False
    ) -> Tensor:
        """Compute the loss of the vectors of each column's mini-batches; the gradient cache calls it."""
        value = self.compute_loss_from_embeddings([torch.cat(column) for column in reps], labels)
        if with_backward:
            value.backward()
        return value.detach() if with_backward else value

    def compute_loss_from_embeddings(self, embeddings: list[Tensor], labels: Tensor | None = None) -> Tensor:
        """Compute the loss of a column of vectors (B, D) for each view."""
        views = torch.stack(embeddings)
        with torch.autocast(views.device.type, enabled=False):  # losses are computed in float32
            value: Tensor = self.loss(views, self._targets(len(views), views.shape[1], labels))
            return value if self.regularizer is None else value + self.regularizer(views)

    def _targets(self, num_views: int, size: int, labels: Tensor | None) -> Tensor | None:
        """Return labels as losses take them: scores in [0, 5], classes, or none."""
        kind: LabelKind = "none" if labels is None else "score"
        if labels is not None and not labels.is_floating_point():
            kind = "class" if self.score_range is None and "class" in self.loss.needs.labels else "score"
        if not self.loss.needs.accepts(num_views) or kind not in self.loss.needs.labels:
            needs = f"{type(self.loss).__name__} needs {self.loss.needs}"
            raise ValueError(f"{needs}, but the data set gives {num_views} columns and {LABEL_WORDS[kind]}.")
        if labels is None or kind == "class":
            return None if labels is None else labels.long().reshape(size)
        low, high = self.score_range or (0.0, 1.0)
        scores = labels.float().reshape(size)
        if not ((low <= scores) & (scores <= high)).all():  # NaN, too, is not
            raise ValueError(
                f"scores from {scores.min():g} to {scores.max():g} do not lie in [{low:g}, {high:g}]; say on "
                "which scale yours are, as in score_range=(0, 5)."
            )
        return (scores - low) * (TOP_SCORE / (high - low))
