"""CoT-BERT's three templates, its denoising and its loss against its code."""

from __future__ import annotations

import copy
import types
from typing import Any

import pytest
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
from tests.differential.papers_code import OldEncoder, definitions

REPOSITORY = "CoT-BERT"
SIZE = 6
TEMPLATES = [
    'The sentence of "{sentence}" means {mask} , so it can be summarized as {mask} .',
    'The sentence : "{sentence}" means {mask} , so it can be summarized as {mask} .',
    'The sentence : "{sentence}" does not mean {mask} , so it cannot be summarized as {mask} .',
]
PUBLISHED = [
    '*cls*_The_sentence_of_"*sent_0*"_means_*mask*_,_so_it_can_be_summarized_as_*mask*_._*sep+*',
    '*cls*_The_sentence_:_"*sent_0*"_means_*mask*_,_so_it_can_be_summarized_as_*mask*_._*sep+*',
    '*cls*_The_sentence_:_"*sent_0*"_does_not_mean_*mask*_,_so_it_cannot_be_summarized_as_*mask*_._*sep+*',
]
LONGEST = 110
"""Tokens of a template, which here are characters, and of a sentence; 80 in their model."""


class Arguments(types.SimpleNamespace):
    """Their settings; those that are not given are off."""

    def __getattr__(self, name: str) -> bool:
        return False


def arguments() -> Arguments:
    """The settings of their run, with the templates' parts before and after the sentence."""
    found = Arguments(
        temp=0.05,
        mask_embedding_sentence=True,
        mask_embedding_sentence_delta=True,
        mask_embedding_sentence_num_masks=1,
        mask_embedding_sentence_different_template=PUBLISHED[1],
        mask_embedding_sentence_negative_template=PUBLISHED[2],
        mask_embedding_sentence_different_negative_template="",
    )
    for end, template in zip(("", "2", "3"), PUBLISHED, strict=True):
        text = template.replace("*mask*", "[MASK]").replace("*sep+*", "").replace("*cls*", "")
        before, after = text.replace("_", " ").split("*sent 0*")
        setattr(found, f"mask_embedding_sentence_bs{end}", before)
        setattr(found, f"mask_embedding_sentence_es{end}", after)
    return found


class Theirs(nn.Module):
    """A BERT with their head; ``loss`` calls their `cl_forward`."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        scope = definitions(
            REPOSITORY,
            "models.py",
            *("MLPLayer", "Similarity", "denoising", "cl_forward"),
            SequenceClassifierOutput=SequenceClassifierOutput,
        )
        tokenizer = encoder.tokenizer.tokenizer
        self.backbone = OldEncoder(copy.deepcopy(encoder.backbone))
        self.mlp = scope["MLPLayer"](encoder.backbone.config)
        self.mlp.dense.load_state_dict(encoder.projector[0].state_dict())
        self.sim = scope["Similarity"](temp=0.05)
        self.model_args: Any = arguments()
        self.total_length, self.mask_num = LONGEST, 2
        self.pad_token_id, self.mask_token_id = tokenizer.pad_token_id, tokenizer.mask_token_id
        for end in ("", "2", "3"):
            template = ""
            for name in ("bs", "es"):
                part = getattr(self.model_args, f"mask_embedding_sentence_{name}{end}")
                setattr(self, f"{name}{end}", tokenizer.encode(part, add_special_tokens=False))
                template += part
            setattr(self, f"mask_embedding_template{end}", tokenizer.encode(template))
        self.cl_forward = scope["cl_forward"]

    def loss(self, rows: list[list[int]], pad: int) -> Tensor:
        """The loss of a batch whose rows are ordered view by view."""
        ids, mask = (part.view(3, SIZE, -1).transpose(0, 1).contiguous() for part in right_padded(rows, pad))
        value: Tensor = self.cl_forward(
            self, self.backbone, input_ids=ids, attention_mask=mask, return_dict=True
        ).loss
        return value


@pytest.mark.slow
def test_training() -> None:
    encoder = spread(
        tiny_bert(
            dropout=0.0,
            pooling="mask_token",
            max_length=32,
            projection="always",
            view_templates=TEMPLATES,
            template=TEMPLATES[0],
            denoise="pad",
        )
    )
    tokenizer = encoder.tokenizer.tokenizer
    texts = SENTENCES[:SIZE]
    batch, ids = views(encoder, [texts] * 3)
    features = definitions(
        REPOSITORY,
        "code-for-BERT/train.py",
        "prepare_features",
        tokenizer=tokenizer,
        model_args=arguments(),
        data_args=types.SimpleNamespace(max_seq_length=32),
        sent0_cname="text",
        sent1_cname="text",
        sent2_cname=None,
    )["prepare_features"]({"text": texts})
    padded = [row[view] for view in range(3) for row in features["input_ids"]]
    masks = [row[view] for view in range(3) for row in features["attention_mask"]]
    assert ids == [row[: sum(mask)] for row, mask in zip(padded, masks, strict=True)]

    theirs = Theirs(encoder)
    loss = InfoNCELoss(positive_negatives=True)
    five_updates(
        encoder,
        lambda step: loss(encoder(batch).view(3, SIZE, -1)),
        make_optimizer(encoder, LEARNING_RATE, 0.0, (0.9, 0.999), EPSILON, fused=False),
        theirs,
        lambda step: theirs.loss(ids, tokenizer.pad_token_id),
        torch.optim.AdamW(theirs.parameters(), lr=LEARNING_RATE, weight_decay=0.0),
        lambda name: name.replace("projector.0.", "mlp.dense.").replace("backbone.", "backbone.inner.", 1),
        rounding=(*ROUNDING, "layer.1.output.LayerNorm.bias"),  # a constant, which the subtraction removes
    )
