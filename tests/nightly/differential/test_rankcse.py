"""RankCSE's terms against those of the public re-implementation; the authors' code is not public."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch
from torch import Tensor

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.papers.losses.paper_code import PaperCodeRankCSELoss
from sts_lightning.papers.losses.rankcse import Distillation, RankCSELoss
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.auxiliary.teacher import Teacher
from tests.nightly.differential.compare import SENTENCES, close, spread, views
from tests.nightly.differential.papers_code import definitions, statements
from tests.nightly.differential.simcse_forks import Fork, blocks, five_adamw_updates

REPOSITORY = "RankCSE"
SIZE = 8
WEIGHTS = (0.33, 0.67)
SETTINGS: dict[str, dict[str, Any]] = {
    "listmle": {},
    "listnet": {"teacher_temperature": 0.05, "positive_in_lists": False},
}


def fork(encoder: SentenceEncoder, distillation: str) -> Fork:
    """Their model with their losses."""
    names = {"listmle": "ListMLE", "listnet": "ListNet"}
    theirs = Fork(encoder, REPOSITORY, "rankcse/models.py", "Divergence", *names.values(), "Pooler")
    theirs.div = theirs.scope["Divergence"](beta_=1.0)
    theirs.distillation_loss_fct = theirs.scope[names[distillation]](0.05, 1.0)
    return theirs


class TheirTeacher:
    """A model with their `encode`, which reads the ids of the student's rows."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder = encoder

    @torch.no_grad()
    def encode(self, inputs: dict[str, Tensor]) -> Tensor:
        output = self.encoder.backbone(inputs["input_ids"], attention_mask=inputs["attention_mask"])
        vectors: Tensor = output.last_hidden_state[:, 0]
        return vectors


def their_similarities(teachers: list[SentenceEncoder], ids: Tensor, mask: Tensor) -> Tensor:
    """The weighted similarities of their training loop."""
    flat = {"input_ids": ids.flatten(0, 1), "attention_mask": mask.flatten(0, 1)}
    scope = statements(
        REPOSITORY,
        "rankcse/trainers.py",
        "embeddings1",
        "teacher_top1_sim_pred",
        self=types.SimpleNamespace(args=types.SimpleNamespace(fp16=False, tau2=0.05, alpha_=WEIGHTS[0])),
        first_teacher=TheirTeacher(teachers[0]),
        second_teacher=TheirTeacher(teachers[1]),
        teacher_inputs=flat,
        batch_size=len(ids),
        num_sent=2,
    )
    found: Tensor = scope["teacher_top1_sim_pred"]
    return found


@pytest.mark.parametrize("distillation", ["listmle", "listnet"])
def test_training(distillation: Distillation) -> None:
    encoder = spread(tiny_bert(dropout=0.0, pooling="cls", max_length=32, projection="always"))
    teachers = [spread(tiny_bert(pooling="cls", max_length=32, weights_seed=seed)).eval() for seed in (1, 2)]
    texts = SENTENCES[:SIZE]
    batch, rows = views(encoder, [texts, texts])
    ids, mask = blocks(rows, 2, encoder.tokenizer.tokenizer.pad_token_id)
    expected = their_similarities(teachers, ids, mask)

    teacher = Teacher(["first", "second"], list(WEIGHTS))
    teacher.encoders = list(teachers)
    step: Any = types.SimpleNamespace(
        pooled=torch.zeros(1),
        batch=types.SimpleNamespace(texts=[texts, texts]),
        gather=lambda vectors: vectors,
    )
    similarities = teacher(step)
    close(similarities, expected * 0.05, 1e-5)

    theirs = fork(encoder, distillation)
    loss = PaperCodeRankCSELoss(distillation=distillation, **SETTINGS[distillation])
    five_adamw_updates(
        encoder,
        lambda step: loss(encoder(batch).view(2, SIZE, -1), teacher=similarities),
        theirs,
        lambda step: theirs(ids, mask, teacher_top1_sim_pred=expected.clone()).loss,
    )


def test_the_papers_terms_differ() -> None:
    """The divergence is none in their code, and the list's loss is a sum over ranks."""
    generator = torch.Generator().manual_seed(0)
    cosines = torch.rand(6, 6, generator=generator)
    scope = definitions(REPOSITORY, "rankcse/models.py", "Divergence")
    probabilities = [part.softmax(dim=-1) for part in (cosines / 0.05, cosines.T / 0.05)]
    theirs = scope["Divergence"](beta_=1.0)(*probabilities)
    assert theirs < 0  # a divergence is not negative
    entropy = PaperCodeRankCSELoss().divergence(cosines / 0.05, cosines.T / 0.05).mean()
    assert entropy.item() == pytest.approx(theirs.item(), rel=1e-4)
    assert RankCSELoss().divergence(cosines / 0.05, cosines.T / 0.05).mean() > 0
