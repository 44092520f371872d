"""A second encoder that trains with the first."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.text.chunks import TokenizedBatch, to_device
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
        vectors: Tensor = self.encoder(first_sentences(step.rows, count), 0 if step.recompute else None)
        return step.gather(vectors[None])[0]


def first_sentences(batch: TokenizedBatch, count: int) -> TokenizedBatch:
    """Return the first ``count`` sentences of the first view, and all bare templates.

    ``num_tokens`` stays that of the whole batch: to count anew would wait for a GPU.
    """
    numbers = batch.by_chunk(torch.arange(len(batch.order)))
    sentences = len(batch.order) if batch.baseline is None else len(batch.baseline)
    kept = [(rows < count) | (rows >= sentences) for rows in numbers]
    chunks = []
    for chunk, rows in zip(batch.chunks, kept, strict=True):
        if bool(rows.any()):
            at = to_device(rows.nonzero()[:, 0], chunk["input_ids"].device)
            chunks.append({name: values[at] for name, values in chunk.items() if name != "view_positions"})
    order = torch.cat(numbers)[torch.cat(kept)]
    baseline = None if batch.baseline is None else batch.baseline[:count]
    inverse_order = to_device(torch.argsort(order), batch.inverse_order.device)
    return TokenizedBatch(chunks, inverse_order, order.numpy(), batch.num_tokens, baseline)
