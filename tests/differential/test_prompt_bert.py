"""PromptBERT's two templates and its denoising against its code."""

from __future__ import annotations

import copy
import types
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

from sts_lightning.losses.infonce import InfoNCELoss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.optim import make_optimizer
from tests.differential.compare import (
    EPSILON,
    LEARNING_RATE,
    ROUNDING,
    SENTENCES,
    five_updates,
    right_padded,
    spread,
    views,
)
from tests.differential.papers_code import definitions

REPOSITORY = "Prompt-BERT"
SIZE = 8
TEMPLATES = [f'This sentence {word} "{{sentence}}" means {{mask}}.' for word in ("of", "::")]
"""Their code shifts both by the first one's length, so both have as many tokens, here of characters."""


class Arguments(types.SimpleNamespace):
    """Their settings; those that are not given are off."""

    def __getattr__(self, name: str) -> bool:
        return False


def arguments() -> Arguments:
    """The settings of their unsupervised run, with the templates' parts before and after the sentence."""
    parts = [template.replace("{mask}", "[MASK]").split("{sentence}") for template in TEMPLATES]
    return Arguments(
        temp=0.05,
        mask_embedding_sentence=True,
        mask_embedding_sentence_delta=True,
        mask_embedding_sentence_num_masks=1,
        mask_embedding_sentence_different_template=TEMPLATES[1],
        mask_embedding_sentence_bs=parts[0][0],
        mask_embedding_sentence_es=parts[0][1],
        mask_embedding_sentence_bs2=parts[1][0],
        mask_embedding_sentence_es2=parts[1][1],
    )


class Theirs(nn.Module):
    """A BERT with their head; ``loss`` calls their `cl_forward`."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        scope = definitions(
            REPOSITORY,
            "prompt_bert/models.py",
            *("MLPLayer", "Similarity", "cl_forward"),
            SequenceClassifierOutput=SequenceClassifierOutput,
        )
        tokenizer = encoder.tokenizer.tokenizer
        self.backbone = copy.deepcopy(encoder.backbone)
        self.mlp = scope["MLPLayer"](encoder.backbone.config)
        self.mlp.dense.load_state_dict(encoder.projector[0].state_dict())
        self.sim = scope["Similarity"](temp=0.05)
        self.model_args = arguments()
        self.mask_token_id = tokenizer.mask_token_id
        self.bs = tokenizer.encode(self.model_args.mask_embedding_sentence_bs, add_special_tokens=False)
        first, second = (
            template.replace("{mask}", "[MASK]").replace("{sentence}", "") for template in TEMPLATES
        )
        self.mask_embedding_template = tokenizer.encode(first)
        self.mask_embedding_template2 = tokenizer.encode(second)
        self.cl_forward = scope["cl_forward"]

    def old_encoder(self, *args: Any, head_mask: Any = None, **settings: Any) -> Any:
        """The BERT, with an argument that present releases do not have."""
        return self.backbone(*args, **settings)

    def loss(self, rows: list[list[int]], pad: int) -> Tensor:
        """The loss of a batch whose rows are ordered view by view."""
        ids, mask = (part.view(2, SIZE, -1).transpose(0, 1).contiguous() for part in right_padded(rows, pad))
        value: Tensor = self.cl_forward(
            self, self.old_encoder, input_ids=ids, attention_mask=mask, return_dict=True
        ).loss
        return value


def test_training() -> None:
    encoder = spread(
        tiny_bert(
            dropout=0.0,
            pooling="mask_token",
            max_length=32,
            projection="always",
            view_templates=TEMPLATES,
            template=TEMPLATES[0],
            denoise="shift",
        )
    )
    tokenizer = encoder.tokenizer.tokenizer
    columns = [SENTENCES[:SIZE], SENTENCES[:SIZE]]
    batch, ids = views(encoder, columns)
    features = definitions(
        REPOSITORY,
        "train.py",
        "prepare_features",
        tokenizer=tokenizer,
        model_args=arguments(),
        data_args=types.SimpleNamespace(max_seq_length=32),
        sent0_cname="text",
        sent1_cname="text",
        sent2_cname=None,
    )["prepare_features"]({"text": columns[0]})
    padded = [row[view] for view in range(2) for row in features["input_ids"]]
    masks = [row[view] for view in range(2) for row in features["attention_mask"]]
    assert ids == [row[: sum(mask)] for row, mask in zip(padded, masks, strict=True)]

    theirs = Theirs(encoder)
    loss = InfoNCELoss()
    five_updates(
        encoder,
        lambda step: loss(encoder(batch).view(2, SIZE, -1)),
        make_optimizer(encoder, LEARNING_RATE, 0.0, (0.9, 0.999), EPSILON, fused=False),
        theirs,
        lambda step: theirs.loss(ids, tokenizer.pad_token_id),
        torch.optim.AdamW(theirs.parameters(), lr=LEARNING_RATE, weight_decay=0.0),
        lambda name: name.replace("projector.0.", "mlp.dense."),
        rounding=(*ROUNDING, "layer.1.output.LayerNorm.bias"),  # a constant, which the subtraction removes
    )
