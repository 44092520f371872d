"""Steps and tokens of a run, from its data if that is here, else from published counts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

from omegaconf import DictConfig

from sts_lightning.data.module import SentenceDataModule
from sts_lightning.data.pair_tables import values_of
from sts_lightning.data.senteval_module import SentEvalData
from sts_lightning.errors import ConfigError, DataError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.tokenize import Prepare
from sts_lightning.training.module import STSModule
from sts_lightning.training.trainer import make_plan

DEV_PAIRS, DEV_SENTENCES, REPORT_SENTENCES = 1_500, 2_910, 26_798
"""Pairs of STS-B dev, their distinct sentences, and those of STS-B dev and the seven test sets."""

SENTENCE_TOKENS = 15
"""Mean number of tokens of a sentence of NLI and STS data, special tokens and template excluded."""


@dataclass(frozen=True)
class Workload:
    """What a run embeds.

    Attributes:
        steps: Optimiser steps.
        step_tokens: Padded tokens of a step.
        tokens: Tokens of the whole training, padding excluded.
        evaluated: Tokens of all evaluations, whose sentences are taken to be as long as those of training.
        notes: Counts that are not those of the data here.
    """

    steps: int
    step_tokens: float
    tokens: int
    evaluated: float
    notes: tuple[str, ...]


def measure(
    cfg: DictConfig,
    module: STSModule,
    data: SentenceDataModule,
    prepare: Callable[[SentenceEncoder, bool], Prepare],
) -> Workload:
    """Count the steps and tokens of a run.

    Args:
        cfg: Configuration that `check_config` has resolved.
        module: Module around an encoder, whose tokenizer counts.
        data: Data module.
        prepare: Function from an encoder, and whether it trains, to its tokenisation.

    Raises:
        ConfigError: The data is not here, and no published count is known for it.
    """
    encoder = module.encoder
    encoder.train()
    rows, final = data.batch_size * data.num_views, cfg.evaluation.final
    try:
        data.setup()
    except DataError as error:
        count = data.published_rows
        if count is None:
            raise ConfigError(f"the plan needs the data, as no published count is known: {error}") from error
        examples = min(count, cfg.data.get("limit") or count)
        batches = math.ceil(examples / data.batch_size)
        row = SENTENCE_TOKENS + encoder.tokenizer.added
        padded = kept = float(rows * row)
        pairs = DEV_PAIRS
        sentences = REPORT_SENTENCES if final and isinstance(data, SentEvalData) else DEV_SENTENCES
        notes: tuple[str, ...] = (
            f"{examples:,} examples as published, of about {row} tokens; the data is not here",
        )
    else:
        data.connect(prepare(encoder, True), prepare(encoder, False))
        loader = data.train_dataloader()
        batches = len(loader)
        seen = [(module.chunks_of(batch)[0], batch) for batch in itertools.islice(loader, 3)]
        padded = sum(c["input_ids"].numel() for rows_, _ in seen for c in rows_.chunks) / len(seen)
        kept = sum(batch.rows.num_tokens for _, batch in seen) / len(seen)
        pairs = len(data.dev)
        tables = [data.dev, *(table for task in data.tests if final for table in task.subsets.values())]
        columns = (values_of(table, name) for table in tables for name in ("sentence1", "sentence2"))
        sentences = len(set(itertools.chain.from_iterable(columns)))
        notes = ()
    plan = make_plan(cfg.trainer, batches)
    validations = plan.total_steps // plan.val_steps + 1  # once before the first step
    reports = 2 if cfg.evaluation.untuned else 1  # which embed each sentence once
    return Workload(
        plan.total_steps,
        padded,
        int(kept * plan.total_steps),
        kept / rows * (2 * pairs * validations + sentences * reports),
        notes,
    )
