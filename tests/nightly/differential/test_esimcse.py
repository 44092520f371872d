"""ESimCSE's repetition of sub-words and its momentum queue against its code."""

from __future__ import annotations

import copy
import random
import types
from collections import Counter

import pytest
import torch
from torch import Tensor

from sts_lightning.losses.infonce import InfoNCELoss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.papers.auxiliary.momentum_queue import MomentumQueue, PaperCodeMomentumQueue
from sts_lightning.papers.auxiliary.second_encoder import first_sentences
from sts_lightning.papers.word_repetition import PaperCodeWordRepetition
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.nightly.differential.compare import SENTENCES, close, spread, views
from tests.nightly.differential.papers_code import OldEncoder, definitions
from tests.nightly.differential.simcse_forks import Fork, blocks, five_adamw_updates, prepared

REPOSITORY = "sentemb"
SIZE = 6
QUEUE = 14
MOMENTUM = 0.9


class Theirs(Fork):
    """Their model with a momentum model."""

    def __init__(self, encoder: SentenceEncoder, copied: SentenceEncoder) -> None:
        settings = {"neg_size": QUEUE, "momentum": MOMENTUM}
        super().__init__(encoder, REPOSITORY, "ESimCSE/esimcse/models.py", "Pooler", **settings)
        self.untrained = [OldEncoder(copy.deepcopy(copied.backbone))]  # no parameters of ours

    @property
    def momentum_model(self) -> OldEncoder:
        return self.untrained[0]


@pytest.mark.parametrize("kind", [PaperCodeMomentumQueue, MomentumQueue])
def test_training(kind: type[MomentumQueue]) -> None:
    """Five updates with a queue that fills and overflows; by default the projection is another one."""
    encoder = spread(tiny_bert(dropout=0.0, pooling="cls", max_length=32, projection="always"))
    queue = kind(QUEUE, MOMENTUM)
    queue.connect(encoder)
    queue.train()
    if kind is PaperCodeMomentumQueue:
        spread(queue.encoder_copy)
    theirs = Theirs(encoder, queue.encoder_copy)
    batch, ids = views(encoder, [SENTENCES[:SIZE], SENTENCES[2 : 2 + SIZE]])
    block, mask = blocks(ids, 2, encoder.tokenizer.tokenizer.pad_token_id)
    scope = definitions(REPOSITORY, "ESimCSE/esimcse/trainers.py", "compute_loss")
    trainer = types.SimpleNamespace(
        model_args=theirs.model_args,
        pre_z1=None,
        args=types.SimpleNamespace(past_index=-1),
        label_smoother=None,
    )
    loss = InfoNCELoss()

    def our_loss(step: int) -> Tensor:
        value: Tensor = loss(encoder(batch).view(2, SIZE, -1), negatives=queue.negatives())
        queue.follow(encoder)
        queue.push(queue.embed(first_sentences(batch, SIZE)))
        return value

    def their_loss(step: int) -> Tensor:
        value: Tensor = scope["compute_loss"](trainer, theirs, {"input_ids": block, "attention_mask": mask})
        return value

    if kind is MomentumQueue:  # the same in the first step, whose queue is empty
        first = our_loss(0)
        torch.testing.assert_close(first, their_loss(0))
        with torch.no_grad():
            encoder.projector[0].weight.mul_(1.1)
            theirs.mlp.dense.weight.mul_(1.1)
        our_loss(1)
        their_loss(1)
        assert trainer.pre_z1 is not None
        assert not torch.allclose(queue.negatives()[-SIZE:], trainer.pre_z1[-SIZE:], atol=1e-3)
        return
    five_adamw_updates(encoder, our_loss, theirs, their_loss)
    assert trainer.pre_z1 is not None
    close(queue.negatives(), trainer.pre_z1, 1e-3)


@pytest.mark.parametrize("text", [SENTENCES[1], SENTENCES[0], SENTENCES[2]])
def test_repetition(text: str) -> None:
    """Rows with repetitions are as frequent, by their number and by the place of the first."""
    draws = 3000
    tokenizer = tiny_bert().tokenizer.tokenizer
    random.seed(0)
    settings = types.SimpleNamespace(dup_type="bpe", dup_rate=0.32)
    rows = prepared(
        REPOSITORY, "ESimCSE/train.py", tokenizer, [[text] * draws], random=random, model_args=settings
    )
    ids = tokenizer(text, max_length=32, truncation=True)["input_ids"]
    assert all(row == ids for row in rows[:draws])
    special = [1, *[0] * (len(ids) - 2), 1]
    ours = [PaperCodeWordRepetition(0.32, seed)(ids, special) for seed in range(draws)]
    theirs = rows[draws:]

    def first_change(row: list[int]) -> int:
        return next((place for place, (a, b) in enumerate(zip(row, ids, strict=False)) if a != b), -1)

    for measure in (len, first_change):
        found, expected = (Counter(map(measure, rows)) for rows in (ours, theirs))
        variation = sum(abs(found[key] - expected[key]) for key in found | expected) / 2 / draws
        assert variation < 0.06, (measure, variation)
