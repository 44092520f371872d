"""STS-Regression's network, losses and optimiser against its code."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sts_lightning.papers.losses.paper_code import (
    PaperCodeRegression,
    PaperCodeSmoothK2Loss,
    PaperCodeTranslatedReLULoss,
)
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.optim import make_optimizer
from tests.nightly.differential.compare import EPSILON, SENTENCES, five_updates, right_padded, spread, views
from tests.nightly.differential.papers_code import definitions, statements

REPOSITORY = "STS-Regression"
SCRIPT = "code/train-bert-roberta.py"
RATE, DECAY, FACTOR = 1e-3, 1e-2, 0.95
LOSSES: dict[str, type[PaperCodeRegression]] = {
    "SmoothK2Loss": PaperCodeSmoothK2Loss,
    "TranslatedReLU": PaperCodeTranslatedReLULoss,
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("top", [2, 5])
def test_penalties_of_free_predictions(name: str, top: int) -> None:
    """Values and gradients where predictions are beyond both ends, with classes and with scores."""
    torch.manual_seed(0)
    labels = torch.randint(0, top + 1, (64,)).float() if top == 2 else torch.rand(64) * top
    prediction = torch.randn(64) * top + top / 2
    assert (prediction < 0).any()
    assert (prediction > top).any()
    penalty = definitions(REPOSITORY, "code/loss.py", name)[name](threshold=0.25, k=2)
    mine, other = (prediction.clone().requires_grad_() for _ in range(2))
    mask = statements(REPOSITORY, SCRIPT, "mask", "prediction", prediction=other)
    theirs = penalty(mask["prediction"], torch.tensor([float(int(label)) for label in labels]))
    loss = LOSSES[name](8, top, k=2, x0=0.25, clamp="left")  # type: ignore[call-arg]
    ours = loss.penalty(loss.error(mine, labels).abs()).mean()
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-6)
    ours.backward()
    theirs.backward()
    assert mine.grad is not None
    assert other.grad is not None
    assert torch.allclose(mine.grad, other.grad, atol=1e-8)


def test_training() -> None:
    """Five updates with layer-wise rates, on weights that 12 layers share nothing of."""
    encoder = spread(tiny_bert(hidden_size=16, layers=12, dropout=0.0, pooling="mean", max_length=256))
    torch.manual_seed(1)
    loss = PaperCodeSmoothK2Loss(16, 2, k=2, x0=0.25, clamp="left")
    torch.nn.init.constant_(loss.head.bias, 1.0)  # predictions between the ends, which have gradients
    ours = nn.ModuleDict({"encoder": encoder, "loss": loss})
    columns = [SENTENCES[:8], SENTENCES[4:12]]
    labels = torch.tensor([0.0, 1.0, 2.0, 1.0, 0.0, 2.0, 2.0, 0.0])
    batch, ids = views(encoder, columns)

    network = definitions(REPOSITORY, "code/model.py", "Average_BERT")["Average_BERT"]
    model = network.__new__(network)
    nn.Module.__init__(model)
    model.bert, model.dense = copy.deepcopy(encoder.backbone), copy.deepcopy(loss.head)
    block, mask = right_padded(ids, encoder.tokenizer.tokenizer.pad_token_id)
    inputs = [{"input_ids": block[part], "attention_mask": mask[part]} for part in (slice(8), slice(8, None))]
    penalty = definitions(REPOSITORY, "code/loss.py", "SmoothK2Loss")["SmoothK2Loss"](threshold=0.25, k=2)

    def their_loss(step: int) -> Tensor:
        prediction = model(*inputs)
        scope = statements(REPOSITORY, SCRIPT, "mask", "prediction", prediction=prediction)
        value: Tensor = penalty(scope["prediction"], labels.reshape(8, 1))
        return value

    settings: dict[str, Any] = {
        "BERT_LEARNING_RATE": RATE,
        "RATE_DECAY_FACTOR": FACTOR,
        "ADAM_WEIGHT_DECAY": DECAY,
        "ADAM_BETA_1": 0.9,
        "ADAM_BETA_2": 0.999,
        "ADAM_EPSILON": EPSILON,
        "AdamW": torch.optim.AdamW,
    }
    theirs = statements(REPOSITORY, SCRIPT, "layer_learning_rate", "optimizer", model=model, **settings)[
        "optimizer"
    ]
    optimizer = make_optimizer(
        ours, RATE, DECAY, (0.9, 0.999), EPSILON, fused=False, layer_decay=FACTOR, decay_embeddings=False
    )

    def rates(found: torch.optim.Optimizer, module: nn.Module) -> dict[str, tuple[float, float]]:
        names = {id(parameter): name for name, parameter in module.named_parameters()}
        return {
            names[id(parameter)]: (group["lr"], group["weight_decay"])
            for group in found.param_groups
            for parameter in group["params"]
        }

    def their_name(name: str) -> str:
        return name.replace("encoder.backbone.", "bert.", 1).replace("loss.head.", "dense.")

    expected = rates(theirs, model)
    found = {their_name(name): pair for name, pair in rates(optimizer, ours).items()}
    assert found.keys() == expected.keys()
    assert all(found[name] == pytest.approx(pair, rel=1e-14) for name, pair in expected.items())
    # Their loop evaluates between the steps; the batches of this test are five times the same.
    five_updates(
        ours,
        lambda step: loss(encoder(batch).view(2, 8, -1), labels),
        optimizer,
        model,
        their_loss,
        theirs,
        their_name,
        clip=10.0,
    )
