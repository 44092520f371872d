"""RankCSE's terms against those of the public re-implementation; the authors' code is not public."""

from __future__ import annotations

import copy
import types
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

from sts_lightning.losses.rankcse import Distillation, RankCSELoss, js_divergence, negative_entropy
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.optim import make_optimizer
from sts_lightning.training.teacher import Teacher
from tests.differential.compare import (
    EPSILON,
    LEARNING_RATE,
    SENTENCES,
    close,
    five_updates,
    right_padded,
    spread,
    views,
)
from tests.differential.papers_code import OldEncoder, definitions, statements

REPOSITORY = "RankCSE"
SIZE = 8
WEIGHTS = (0.33, 0.67)
SETTINGS: dict[str, dict[str, Any]] = {
    "listmle": {"official": True},
    "listnet": {"official": True, "teacher_temperature": 0.05, "positive_in_lists": False},
}


class Theirs(nn.Module):
    """A BERT with their head and losses; ``loss`` calls their `cl_forward`."""

    def __init__(self, encoder: SentenceEncoder, distillation: str) -> None:
        super().__init__()
        scope = definitions(
            REPOSITORY,
            "rankcse/models.py",
            *("MLPLayer", "Similarity", "Divergence", "ListNet", "ListMLE", "Pooler", "cl_forward"),
            SequenceClassifierOutput=SequenceClassifierOutput,
        )
        self.backbone = OldEncoder(copy.deepcopy(encoder.backbone))
        self.mlp = scope["MLPLayer"](encoder.backbone.config)
        self.mlp.dense.load_state_dict(encoder.projector[0].state_dict())
        self.pooler_type, self.pooler = "cls", scope["Pooler"]("cls")
        self.sim = scope["Similarity"](temp=0.05)
        self.div = scope["Divergence"](beta_=1.0)
        names = {"listmle": "ListMLE", "listnet": "ListNet"}
        self.distillation_loss_fct = scope[names[distillation]](0.05, 1.0)
        self.model_args = types.SimpleNamespace(pooler_type="cls", hard_negative_weight=0, do_mlm=False)
        self.device = torch.device("cpu")
        self.cl_forward = scope["cl_forward"]

    def loss(self, ids: Tensor, mask: Tensor, teacher: Tensor) -> Tensor:
        """The loss of blocks (B, V, L) with the teachers' similarities over the temperature."""
        value: Tensor = self.cl_forward(
            self,
            self.backbone,
            input_ids=ids,
            attention_mask=mask,
            teacher_top1_sim_pred=teacher,
            return_dict=True,
        ).loss
        return value


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
    ids, mask = (
        part.view(2, SIZE, -1).transpose(0, 1).contiguous()
        for part in right_padded(rows, encoder.tokenizer.tokenizer.pad_token_id)
    )
    expected = their_similarities(teachers, ids, mask)

    teacher = Teacher(["first", "second"], list(WEIGHTS))
    teacher.encoders = list(teachers)
    step: Any = types.SimpleNamespace(
        views=torch.zeros(1),
        batch=types.SimpleNamespace(texts=[texts, texts]),
        gather=lambda vectors: vectors,
    )
    similarities = teacher(step)
    close(similarities, expected * 0.05, 1e-5)

    theirs = Theirs(encoder, distillation)
    loss = RankCSELoss(distillation=distillation, **SETTINGS[distillation])
    five_updates(
        encoder,
        lambda step: loss(encoder(batch).view(2, SIZE, -1), teacher=similarities),
        make_optimizer(encoder, LEARNING_RATE, 0.0, (0.9, 0.999), EPSILON, fused=False),
        theirs,
        lambda step: theirs.loss(ids, mask, expected.clone()),
        torch.optim.AdamW(theirs.parameters(), lr=LEARNING_RATE, eps=EPSILON, weight_decay=0.0),
        lambda name: name.replace("projector.0.", "mlp.dense.").replace("backbone.", "backbone.inner.", 1),
    )


def test_the_papers_terms_differ() -> None:
    """The divergence is none in their code, and the list's loss is a sum over ranks."""
    generator = torch.Generator().manual_seed(0)
    cosines = torch.rand(6, 6, generator=generator)
    scope = definitions(REPOSITORY, "rankcse/models.py", "Divergence")
    probabilities = [part.softmax(dim=-1) for part in (cosines / 0.05, cosines.T / 0.05)]
    theirs = scope["Divergence"](beta_=1.0)(*probabilities)
    assert theirs < 0  # a divergence is not negative
    entropy = negative_entropy(cosines / 0.05, cosines.T / 0.05).mean()
    assert entropy.item() == pytest.approx(theirs.item(), rel=1e-4)
    assert js_divergence(cosines / 0.05, cosines.T / 0.05).mean() > 0
