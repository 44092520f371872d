"""Steps and tokens of a run, from its data if that is here, else from published counts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from datasets import Dataset
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

SAMPLE = 1_000
"""Number of sentences of dev and test sets whose tokens are counted."""

SENTENCE_TOKENS = 15
"""Mean number of tokens of a sentence of NLI and STS data, special tokens and template excluded."""


@dataclass(frozen=True)
class Workload:
    """What a run embeds.

    Attributes:
        steps: Optimiser steps.
        step_tokens: Padded tokens of a step.
        tokens: Tokens of the whole training, padding excluded.
        dev_tokens: Tokens of the dev evaluations during training.
        report_tokens: Tokens of the evaluations before and after it, which embed each sentence once.
        notes: Counts that are not those of the data here.
    """

    steps: int
    step_tokens: float
    tokens: int
    dev_tokens: float
    report_tokens: float
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
    row = SENTENCE_TOKENS + encoder.tokenizer.added
    rows = data.batch_size * data.num_views
    try:
        data.setup()
    except DataError as error:
        examples = _published(cfg, data, error)
        batches = math.ceil(examples / data.batch_size)
        padded = kept = float(rows * row)
        tested = isinstance(data, SentEvalData) and cfg.evaluation.final
        dev_tokens = 2.0 * row * DEV_PAIRS
        report_tokens = float(row * (REPORT_SENTENCES if tested else DEV_SENTENCES))
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
        tasks = data.tests if cfg.evaluation.final else []
        dev_tokens = _tokens(encoder, list(_sentences([data.dev])))
        tables = [data.dev, *(table for task in tasks for table in task.subsets.values())]
        report_tokens = _tokens(encoder, list(dict.fromkeys(_sentences(tables))))
        notes = ()
    plan = make_plan(cfg.trainer, batches)
    return Workload(
        plan.total_steps,
        padded,
        int(kept * plan.total_steps),
        dev_tokens * (plan.total_steps // plan.val_steps + 1),  # once before the first step
        report_tokens * (2 if cfg.evaluation.untuned else 1),
        notes,
    )


def _sentences(tables: Iterable[Dataset]) -> Iterator[str]:
    """Yield all sentences of scored pairs."""
    for table in tables:
        for column in ("sentence1", "sentence2"):
            yield from values_of(table, column)


def _tokens(encoder: SentenceEncoder, sentences: Sequence[str]) -> float:
    """Return the number of tokens of sentences as evaluation reads them, from a sample of many."""
    sample = sentences[:: math.ceil(len(sentences) / SAMPLE)]
    return len(sentences) * sum(map(len, encoder.tokenizer(sample))) / len(sample)


def _published(cfg: DictConfig, data: SentenceDataModule, error: DataError) -> int:
    count = data.published_rows
    if count is None:
        raise ConfigError(f"the plan needs the data, since no published count is known: {error}") from error
    return min(count, cfg.data.get("limit") or count)
