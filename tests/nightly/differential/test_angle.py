"""AnglE's tokens, batches and three losses against its code of 2023, that of ``experiment=angle_llama``.

Its clone is a checkout of f0efcb7, in a folder named AnglE-2023.
"""

from __future__ import annotations

import copy
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Optional, Union

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import PaddingStrategy

from sts_lightning.data.collate import View, ViewCollator
from sts_lightning.losses.angle import AnglELoss
from sts_lightning.losses.cosent import CoSENTLoss
from sts_lightning.losses.ibn import IBNLoss
from sts_lightning.losses.mix import MixLoss
from sts_lightning.testing.tiny_decoders import tiny_llama
from sts_lightning.training.optim import make_optimizer
from tests.nightly.differential.compare import (
    CHUNK_TOKENS,
    EPSILON,
    LEARNING_RATE,
    SENTENCES,
    close,
    five_updates,
    spread,
    views,
)
from tests.nightly.differential.papers_code import definitions

REPOSITORY, FILE = "AnglE-2023", "angle_emb/angle.py"
TEMPLATE = 'Summarize sentence "{}" in one word:"'
LENGTH = 32
GIVEN = {
    "re": re,
    "np": np,
    "defaultdict": defaultdict,
    "dataclass": dataclass,
    "Any": Any,
    "Dict": dict,
    "List": list,
    "Optional": Optional,
    "Union": Union,
    "PreTrainedModel": PreTrainedModel,
    "PreTrainedTokenizerBase": PreTrainedTokenizerBase,
    "PaddingStrategy": PaddingStrategy,
}
ROWS = [
    {"text1": SENTENCES[first], "text2": SENTENCES[second], "label": label}
    for first, second, label in [
        (0, 1, 1),
        (2, 3, 0),
        (0, 4, 0),  # the premise of the first pair
        (5, 5, 1),  # a pair of equal sentences
        (6, 7, 1),
        (7, 8, 0),
    ]
]
"""Some are cut, and some occur twice."""


def test_training() -> None:
    encoder = spread(
        tiny_llama(template=TEMPLATE.format("{sentence}"), pooling="last_token", max_length=LENGTH)
    )
    tokenizer = copy.deepcopy(encoder.tokenizer.tokenizer)
    tokenizer.pad_token_id = 0  # as they set it, and as they pad masks
    scope = definitions(
        REPOSITORY,
        FILE,
        *("categorical_crossentropy", "cosine_loss", "angle_loss", "in_batch_negative_loss"),
        *("AngleLoss", "AngleDataTokenizer", "AngleDataCollator", "Pooler"),
        **GIVEN,
    )
    tokenize = scope["AngleDataTokenizer"](
        tokenizer,
        max_length=LENGTH + len(tokenizer(TEMPLATE.format(""))["input_ids"]),
        prompt_template=TEMPLATE.format("{text}"),
    )
    inputs = scope["AngleDataCollator"](tokenizer)([tokenize(dict(row)) for row in ROWS])
    columns = [[str(row[name]) for row in ROWS] for name in ("text1", "text2")]
    batch, ids = views(encoder, columns)
    block, mask = inputs["input_ids"], inputs["attention_mask"]
    theirs_by_view = [block[row][mask[row].bool()].tolist() for view in (0, 1) for row in range(view, 12, 2)]
    assert ids == theirs_by_view
    assert inputs["similar_matrix"].sum() == 6

    model: Any = copy.deepcopy(encoder.backbone)
    model.config.pad_token_id = tokenizer.pad_token_id
    pooler = scope["Pooler"](model, is_llm=True)
    their_angle = scope["AngleLoss"](w1=1.0, w2=35.0, w3=1.0)

    def their_loss(step: int) -> Tensor:
        vectors = pooler({"input_ids": block, "attention_mask": mask})
        value: Tensor = their_angle(inputs["labels"], vectors, similar_matrix=inputs["similar_matrix"])
        return value

    examples = [
        {"first": row["text1"], "second": row["text2"], "label": 5.0 * int(row["label"])} for row in ROWS
    ]
    collate = ViewCollator(
        [View("first"), View("second")], "score", encoder.prepare(CHUNK_TOKENS, training=True)
    )
    collated = collate(examples)
    loss = MixLoss(
        {"angle": AnglELoss(scale=1.0), "cosent": CoSENTLoss(), "ibn": IBNLoss(equal_sentences="positives")},
        {"angle": 1.0, "cosent": 1.0, "ibn": 35.0},
    )
    ours = encoder(batch).view(2, 6, -1).transpose(0, 1).flatten(0, 1)
    close(ours, pooler({"input_ids": block, "attention_mask": mask}), 1e-5)

    def our_loss(step: int) -> Tensor:
        embedded = encoder(collated.rows).view(2, 6, -1)
        return loss(embedded, collated.labels, sentence_ids=collated.sentence_ids)

    five_updates(
        encoder,
        our_loss,
        make_optimizer(encoder, LEARNING_RATE, 0.0, (0.9, 0.999), EPSILON, fused=False),
        model,
        their_loss,
        torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, eps=EPSILON, weight_decay=0.0),
        lambda name: name.removeprefix("backbone."),
    )
