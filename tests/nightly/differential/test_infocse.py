"""InfoCSE's projection and auxiliary network against its code."""

from __future__ import annotations

import copy
import re
import types
import typing
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

from sts_lightning.data.collate import Batch
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.papers.auxiliary import masked_lm
from sts_lightning.papers.auxiliary.masked_lm import MaskedLanguageModel, PaperCodeMaskedLanguageModel
from sts_lightning.papers.losses.infocse import InfoCSELoss
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.nightly.differential.compare import SENTENCES, spread, views
from tests.nightly.differential.papers_code import OldEncoder, definitions
from tests.nightly.differential.simcse_forks import blocks, five_adamw_updates
from tests.support.training_steps import step_alone

REPOSITORY = "sentemb"
SIZE = 6
WEIGHT = 0.5
"""Of the auxiliary loss; the published one is too small to show in the gradient."""


class OldLayer(nn.Module):
    """A transformer layer that returns a tuple, as in old releases."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, hidden: Tensor, mask: Tensor) -> tuple[Tensor]:
        return (self.inner(hidden, mask),)


class OldBert(OldEncoder):
    """A BERT with a method of old releases."""

    def get_extended_attention_mask(self, mask: Tensor, shape: Any, device: Any) -> Tensor:
        return (1.0 - mask[:, None, None].float()) * torch.finfo(torch.float32).min


class Head(nn.Module):
    """The head of a masked language model: BERT's transform, and an output layer with a table of its own."""

    def __init__(self, auxiliary: MaskedLanguageModel) -> None:
        super().__init__()
        table = auxiliary.table
        assert table is not None
        self.transform = copy.deepcopy(auxiliary.transform)
        self.decoder = nn.Linear(*reversed(table.shape))
        self.decoder.load_state_dict({"weight": table.detach(), "bias": auxiliary.bias.detach()})

    def forward(self, hidden: Tensor) -> Tensor:
        scores: Tensor = self.decoder(self.transform(hidden))
        return scores


class Theirs(nn.Module):
    """The networks of their model; ``loss`` calls their `cl_forward`."""

    def __init__(self, encoder: SentenceEncoder, auxiliary: MaskedLanguageModel) -> None:
        super().__init__()
        scope = definitions(
            REPOSITORY,
            "InfoCSE/infocse/models_cls_mlm.py",
            *("ProjectionMLP", "Similarity", "Pooler", "cl_forward"),
            SequenceClassifierOutput=SequenceClassifierOutput,
        )
        self.config = encoder.backbone.config
        self.bert = OldBert(copy.deepcopy(encoder.backbone))
        self.mlm = OldEncoder(copy.deepcopy(auxiliary.lower))
        self.c_head = nn.ModuleList(OldLayer(copy.deepcopy(layer)) for layer in auxiliary.upper.layer)
        self.lm_head = Head(auxiliary)
        self.mlp = scope["ProjectionMLP"](self.config)
        self.mlp.net.load_state_dict(encoder.projector.state_dict())
        self.pooler_type, self.pooler = "cls", scope["Pooler"]("cls")
        self.sim = scope["Similarity"](temp=0.05)
        self.skip_from = len(auxiliary.lower.encoder.layer)
        self.model_args = types.SimpleNamespace(
            pooler_type="cls", hard_negative_weight=0, batchnorm=True, mlm_eval=True, mlm_weight=WEIGHT
        )
        self.device = torch.device("cpu")
        self.cl_forward = scope["cl_forward"]

    def loss(self, **inputs: Tensor) -> Tensor:
        """The loss of blocks (B, V, L)."""
        value: Tensor = self.cl_forward(self, self.bert, return_dict=True, **inputs).loss
        return value


def mask_some(ids: Tensor, special: Tensor, mask_id: int, *others: Any) -> tuple[Tensor, Tensor]:
    """Mask a third of the words, known by their ids, instead of random ones."""
    chosen = (ids % 3 == 0) & ~torch.isin(ids, torch.as_tensor(special))
    return torch.where(chosen, mask_id, ids), chosen


def their_name(name: str) -> str:
    for ours, theirs in (
        ("encoder.backbone.", "bert.inner."),
        ("encoder.projector.", "mlp.net."),
        ("auxiliary.lower.", "mlm.inner."),
        ("auxiliary.transform.", "lm_head.transform."),
        ("auxiliary.table", "lm_head.decoder.weight"),
        ("auxiliary.bias", "lm_head.decoder.bias"),
    ):
        if name.startswith(ours):
            return name.replace(ours, theirs, 1)
    return re.sub(r"^auxiliary\.upper\.layer\.(\d+)\.", r"c_head.\1.inner.", name)


def test_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masked_lm, "mask_words", mask_some)
    encoder = spread(tiny_bert(layers=3, dropout=0.0, pooling="cls", max_length=32, projection="batch_norm"))
    auxiliary = PaperCodeMaskedLanguageModel(lower_layers=1, layers=2)
    auxiliary.connect(encoder)
    ours = nn.ModuleDict({"encoder": encoder, "auxiliary": auxiliary}).train()
    theirs = Theirs(encoder, auxiliary).train()
    batch, rows = views(encoder, [SENTENCES[:SIZE], SENTENCES[:SIZE]])
    tokenizer = encoder.tokenizer.tokenizer
    ids, mask = blocks(rows, 2, tokenizer.pad_token_id)
    masked, chosen = mask_some(ids, auxiliary.special, auxiliary.mask_id)
    labels = torch.where(chosen, ids, -100)
    loss = InfoCSELoss(masked_lm_weight=WEIGHT)

    def our_loss(step: int) -> Tensor:
        pooled = encoder(batch, project=False)
        embedded = encoder.project(pooled).view(2, SIZE, -1)
        given = step_alone(encoder, Batch(batch, 2, None, SIZE), pooled)
        value: Tensor = loss(embedded, masked_lm=auxiliary(given))
        return value

    five_adamw_updates(
        ours,
        our_loss,
        theirs,
        lambda step: theirs.loss(input_ids=ids, attention_mask=mask, mlm_input_ids=masked, mlm_labels=labels),
        their_name,
    )


def test_masked_words() -> None:
    """As many words as theirs are chosen, and of those as many become the mask, or stay."""
    encoder = tiny_bert()
    tokenizer = encoder.tokenizer.tokenizer
    torch.manual_seed(0)
    ids = torch.randint(5, len(tokenizer), (200, 60))
    ids[:, 0], ids[:, -1] = tokenizer.cls_token_id, tokenizer.sep_token_id
    given = {"Optional": typing.Optional, "Tuple": tuple}
    scope = definitions(REPOSITORY, "InfoCSE/train_cls_mlm.py", "mask_tokens", **given)
    collator = types.SimpleNamespace(tokenizer=tokenizer, mlm_probability=0.4)
    theirs, labels = scope["mask_tokens"](collator, ids.clone())
    special = torch.tensor(tokenizer.all_special_ids)
    ours, chosen = masked_lm.mask_words(
        ids, special, tokenizer.mask_token_id, len(tokenizer), 0.4, masked_lm.row_keys(0, 0, 0, 1, range(200))
    )
    assert not (chosen & torch.isin(ids, special)).any()
    for found, expected in (
        (chosen, labels != -100),
        (ours == tokenizer.mask_token_id, theirs == tokenizer.mask_token_id),
        (chosen & (ours == ids), (labels != -100) & (theirs == ids)),
    ):
        assert found.float().mean().item() == pytest.approx(expected.float().mean().item(), abs=0.01)
