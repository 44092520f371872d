"""SimCSE with and without hard negatives, and MixCSE, against their code."""

from __future__ import annotations

import copy
import types
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

from sts_lightning.losses.infonce import InfoNCELoss
from sts_lightning.losses.mixcse import MixCSELoss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.optim import make_optimizer
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
from tests.differential.papers_code import definitions

SIZE = 8


class Theirs(nn.Module):
    """A BERT with their head; ``forward`` is their `cl_forward`."""

    def __init__(self, encoder: SentenceEncoder, repository: str, path: str) -> None:
        super().__init__()
        scope = definitions(
            repository,
            path,
            *("MLPLayer", "Similarity", "Pooler", "cl_forward"),
            SequenceClassifierOutput=SequenceClassifierOutput,
        )
        self.backbone = copy.deepcopy(encoder.backbone)
        self.mlp = scope["MLPLayer"](encoder.backbone.config)
        self.mlp.dense.load_state_dict(encoder.projector[0].state_dict())
        self.pooler_type = "cls"
        self.pooler = scope["Pooler"]("cls")
        self.sim = scope["Similarity"](temp=0.05)
        self.model_args = types.SimpleNamespace(
            pooler_type="cls", hard_negative_weight=0, do_mlm=False, temp=0.05
        )
        self.lambdas = 0.2
        self.device = torch.device("cpu")
        self.cl_forward = scope["cl_forward"]

    def old_encoder(self, *args: Any, head_mask: Any = None, **settings: Any) -> Any:
        """The BERT, with an argument that present releases do not have."""
        return self.backbone(*args, **settings)

    def loss(self, rows: list[list[int]], count: int, pad: int) -> Tensor:
        """The loss of a batch whose rows are ordered view by view."""
        ids, mask = right_padded(rows, pad)
        blocks = [part.view(count, -1, part.size(-1)).transpose(0, 1) for part in (ids, mask)]
        value: Tensor = self.cl_forward(
            self,
            self.old_encoder,
            input_ids=blocks[0].contiguous(),
            attention_mask=blocks[1].contiguous(),
            return_dict=True,
        ).loss
        return value


def their_ids(encoder: SentenceEncoder, columns: list[list[str]]) -> list[list[int]]:
    """Token ids of their `prepare_features`, view by view."""
    names = ["sent0", "sent1", "hard_neg"][: len(columns)]
    features = definitions(
        "SimCSE",
        "train.py",
        "prepare_features",
        tokenizer=encoder.tokenizer.tokenizer,
        data_args=types.SimpleNamespace(max_seq_length=32, pad_to_max_length=False),
        sent0_cname=names[0],
        sent1_cname=names[1],
        sent2_cname=names[2] if len(names) == 3 else None,
    )["prepare_features"](dict(zip(names, columns, strict=True)))
    return [row[view] for view in range(len(columns)) for row in features["input_ids"]]


def their_name(name: str) -> str:
    return name.replace("projector.0.", "mlp.dense.")


@pytest.mark.parametrize(("method", "count"), [("simcse", 2), ("simcse", 3), ("mixcse", 2)])
def test_training(method: str, count: int) -> None:
    encoder = spread(tiny_bert(dropout=0.0, pooling="cls", max_length=32, projection="always"))
    places = {
        "simcse": ("SimCSE", "simcse/models.py"),
        "mixcse": ("MixCSE_AAAI2022", "mixcse/models_mix.py"),
    }
    theirs = Theirs(encoder, *places[method])
    columns = [SENTENCES[:SIZE], SENTENCES[2 : 2 + SIZE], SENTENCES[4 : 4 + SIZE]][:count]
    batch, ids = views(encoder, columns)
    assert ids == their_ids(encoder, columns)
    assert max(map(len, ids)) == 32  # some are cut
    loss = InfoNCELoss() if method == "simcse" else MixCSELoss(official=True)
    pad = encoder.tokenizer.tokenizer.pad_token_id
    block, mask = right_padded(ids, pad)
    pooled = theirs.mlp(theirs.backbone(block, attention_mask=mask).last_hidden_state[:, 0])
    close(encoder(batch), pooled, 1e-5)
    five_updates(
        encoder,
        lambda step: loss(encoder(batch).view(count, SIZE, -1)),
        make_optimizer(encoder, LEARNING_RATE, 0.0, (0.9, 0.999), EPSILON, fused=False),
        theirs,
        lambda step: theirs.loss(ids, count, pad),
        torch.optim.AdamW(theirs.parameters(), lr=LEARNING_RATE, eps=EPSILON, weight_decay=0.0),
        their_name,
    )


@pytest.mark.parametrize(
    ("ours", "pooler"), [("cls", "cls"), ("mean", "avg"), ("first_last_mean", "avg_first_last")]
)
def test_poolers(ours: Any, pooler: str) -> None:
    encoder = spread(tiny_bert(pooling=ours)).eval()
    rows = encoder.tokenizer(SENTENCES)
    ids, mask = right_padded(rows, encoder.tokenizer.tokenizer.pad_token_id)
    scope = definitions("SimCSE", "simcse/models.py", "Pooler")
    with torch.no_grad():
        output = encoder.backbone(ids, attention_mask=mask, output_hidden_states=True)
        theirs = scope["Pooler"](pooler)(mask, output)
    close(torch.from_numpy(encoder.encode(SENTENCES)), theirs, 1e-5)
