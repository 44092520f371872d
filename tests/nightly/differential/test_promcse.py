"""PromCSE's prefix and its energy-based hinge against its code."""

from __future__ import annotations

import copy
import types
from typing import Any

import pytest
import torch
from peft import PrefixTuningConfig
from torch import Tensor, nn
from transformers import DynamicCache
from transformers.modeling_outputs import SequenceClassifierOutput

from sts_lightning.losses.base import Loss
from sts_lightning.losses.contrastive import EnergyLoss, InfoNCELoss
from sts_lightning.losses.mix import MixLoss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.nightly.differential.compare import SENTENCES, spread, views
from tests.nightly.differential.papers_code import definitions
from tests.nightly.differential.simcse_forks import blocks, five_adamw_updates

REPOSITORY = "PromCSE"
FILE = "promcse/models.py"
SIZE = 8
LENGTH = 5


class Theirs(nn.Module):
    """A frozen BERT with their prefix and head; ``loss`` calls their `cl_forward`."""

    def __init__(self, encoder: SentenceEncoder, hinge: bool) -> None:
        super().__init__()
        scope = definitions(
            REPOSITORY,
            FILE,
            *("PrefixEncoder", "MLPLayer", "Similarity", "Pooler", "cl_forward", "get_prompt"),
            SequenceClassifierOutput=SequenceClassifierOutput,
        )
        backbone = encoder.plain_backbone
        config = backbone.config
        self.model_args = types.SimpleNamespace(
            pooler_type="cls",
            hard_negative_weight=0,
            temp=0.05,
            do_eh_loss=hinge,
            eh_loss_weight=10,
            pre_seq_len=LENGTH,
            prefix_projection=False,
        )
        self.bert = copy.deepcopy(backbone).requires_grad_(False)
        self.prefix_encoder = scope["PrefixEncoder"](config, self.model_args)
        prefix = next(part for name, part in encoder.named_parameters() if "prompt_encoder" in name)
        self.prefix_encoder.embedding.weight.data.copy_(prefix.detach())
        self.mlp = scope["MLPLayer"](config)
        self.mlp.dense.load_state_dict(encoder.projector[0].state_dict())
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.pre_seq_len, self.prefix_tokens = LENGTH, torch.arange(LENGTH)
        self.n_layer, self.n_head = config.num_hidden_layers, config.num_attention_heads
        self.n_embd = config.hidden_size // config.num_attention_heads
        self.pooler_type, self.pooler = "cls", scope["Pooler"]("cls")
        self.sim = scope["Similarity"](temp=0.05)
        self.margin_rank_loss = nn.MarginRankingLoss(margin=0.2)
        self.device = torch.device("cpu")
        self.prompt = scope["get_prompt"]
        self.cl_forward = scope["cl_forward"]

    def get_prompt(self, batch_size: int) -> Any:
        return self.prompt(self, batch_size)

    def old_encoder(self, ids: Tensor, past_key_values: Any, head_mask: Any, **settings: Any) -> Any:
        """The BERT, with keys and values in the present form."""
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(past_key_values):
            cache.update(keys, values, layer)
        return self.bert(ids, past_key_values=cache, **settings)

    def loss(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The loss of blocks (B, V, L)."""
        value: Tensor = self.cl_forward(
            self, self.old_encoder, input_ids=ids, attention_mask=mask, return_dict=True
        ).loss
        return value


def with_prefix(dropout: float) -> SentenceEncoder:
    adapter = PrefixTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=LENGTH)
    encoder = tiny_bert(dropout=dropout, pooling="cls", max_length=32, projection="always", adapter=adapter)
    return spread(encoder)


def their_name(name: str) -> str:
    if "prompt_encoder" in name:
        return "prefix_encoder.embedding.weight"
    return name.replace("projector.0.", "mlp.dense.").replace("backbone.base_model.", "bert.")


@pytest.mark.parametrize("count", [2, 3])
def test_training(count: int) -> None:
    encoder = with_prefix(0.0)
    theirs = Theirs(encoder, hinge=count == 3)
    columns = [SENTENCES[:SIZE], SENTENCES[2 : 2 + SIZE], SENTENCES[4 : 4 + SIZE]][:count]
    batch, ids = views(encoder, columns)
    loss: Loss = InfoNCELoss()
    if count == 3:
        loss = MixLoss({"infonce": loss, "energy": EnergyLoss(margin=0.2)}, {"infonce": 1.0, "energy": 10.0})
    given = blocks(ids, count, encoder.tokenizer.tokenizer.pad_token_id)
    five_adamw_updates(
        encoder,
        lambda step: loss(encoder(batch).view(count, SIZE, -1)),
        theirs,
        lambda step: theirs.loss(*given),
        their_name,
    )


def test_dropout_of_the_prefix() -> None:
    """The same elements of the same rows are dropped, in training alone."""
    encoder = with_prefix(0.4)
    theirs = Theirs(encoder, hinge=False)
    backbone: Any = encoder.backbone
    for mode in (True, False):
        torch.manual_seed(0)
        expected = torch.stack(theirs.train(mode).get_prompt(3))
        encoder.train(mode)
        torch.manual_seed(0)
        cache = backbone.get_prompt(3)
        found = torch.stack([torch.stack([layer.keys, layer.values]) for layer in cache.layers])
        assert torch.equal(found, expected)
        assert bool((expected == 0).any()) == mode


def test_start_of_the_prefix() -> None:
    """Both draw from N(0, 0.02)."""
    drawn = definitions(REPOSITORY, FILE, "PrefixEncoder")["PrefixEncoder"]
    encoder = with_prefix(0.0)
    given = types.SimpleNamespace(prefix_projection=False, pre_seq_len=500)
    theirs = drawn(encoder.plain_backbone.config, given)
    encoder.plain_backbone._init_weights(theirs.embedding)
    ours = tiny_bert(adapter=PrefixTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=200))
    weight = next(part for name, part in ours.named_parameters() if "prompt_encoder" in name)
    assert weight.std().item() == pytest.approx(theirs.embedding.weight.std().item(), rel=0.05)
