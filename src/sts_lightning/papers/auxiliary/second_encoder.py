"""A second encoder that trains with the first."""

from __future__ import annotations

import copy

from torch import Tensor

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.training.auxiliary.base import AuxiliaryModel, Step


class SecondEncoder(AuxiliaryModel):
    """Independent encoder with the same weights at the start (CT, Carlsson et al. 2021).

    It embeds the sentences of the first view with other dropout, trains with the same optimiser, and is
    in the checkpoints of the run, so that a run resumes with both. The run's encoder is the first one: dev
    scores and the report are of that one. `The authors' code
    <https://github.com/FreddeFrallan/Contrastive-Tension/blob/5ee9b2d06c0957c77ebc9d204262dd5793fdff87/ContrastiveTension/Training.py#L85-L97>`_
    evaluates both and keeps the better one.

    Use it when a loss takes the vectors of a second encoder, as `ContrastiveTensionLoss` does.
    """

    provides = "second"
    extra_views = 1
    encoder: SentenceEncoder

    def connect(self, encoder: SentenceEncoder) -> None:
        """Copy the encoder; its tokenizer is shared."""
        self.encoder = copy.deepcopy(encoder, {id(encoder.tokenizer): encoder.tokenizer})

    def forward(self, step: Step) -> Tensor:
        """Embed the first view of the whole batch, (B, D)."""
        count = len(step.pooled) // step.batch.num_views
        vectors: Tensor = self.encoder(step.rows.first_sentences(count), step.recompute)
        return step.gather(vectors[None])[0]
