"""Steps and tokens of a run, from its data if that is here, else from published counts."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from omegaconf import DictConfig

from sts_lightning.data.module import SentenceDataModule, SentEvalData
from sts_lightning.data.nli_pairs import NLIPairsData
from sts_lightning.data.nli_triplets import NLITripletsData
from sts_lightning.data.sentences import SentencesData
from sts_lightning.data.sts import STSData
from sts_lightning.errors import ConfigError, DataError
from sts_lightning.training.module import STSModule
from sts_lightning.training.trainer import make_plan

PUBLISHED: dict[type[SentenceDataModule], int] = {
    NLITripletsData: 275_601,
    NLIPairsData: 942_069,
    SentencesData: 1_000_000,
}
"""Number of training examples in the papers, where it does not depend on a setting."""

PUBLISHED_STS = {"exact": 5_398, "normalized": 5_318, "none": 10_249}
"""The same of ``data=sts``, by filter."""

DEV_PAIRS, TEST_PAIRS = 1_500, 18_850
"""Pairs of STS-B dev and of the seven test sets."""

SENTENCE_TOKENS = 15
"""Mean number of tokens of a sentence of NLI and STS data, special tokens and template excluded."""


@dataclass(frozen=True)
class Workload:
    """What a run embeds.

    Attributes:
        steps: Optimiser steps.
        step_tokens: Padded tokens of a step.
        tokens: Tokens of the whole training, padding excluded.
        scored_tokens: Tokens of all evaluations.
        notes: Counts that are not those of the data here.
    """

    steps: int
    step_tokens: float
    tokens: int
    scored_tokens: float
    notes: tuple[str, ...]


def measure(cfg: DictConfig, module: STSModule, data: SentenceDataModule, chunk_tokens: int) -> Workload:
    """Count the steps and tokens of a run.

    Args:
        cfg: Configuration that `check_config` has resolved.
        module: Module around an encoder, whose tokenizer counts.
        data: Data module.
        chunk_tokens: Maximum number of tokens of a chunk, padding included.

    Raises:
        ConfigError: The data is not here, and no published count is known for it.
    """
    encoder = module.encoder
    encoder.train()
    row = SENTENCE_TOKENS + encoder.tokenizer.longest_row - encoder.tokenizer.max_length
    rows = data.batch_size * data.num_views
    try:
        data.setup()
    except DataError as error:
        examples = _published(cfg, data, error)
        batches = math.ceil(examples / data.batch_size)
        padded = kept = float(rows * row)
        dev, tests = DEV_PAIRS, TEST_PAIRS if isinstance(data, SentEvalData) else 0
        notes: tuple[str, ...] = (
            f"{examples:,} examples as published, of about {row} tokens; the data is not here",
        )
    else:
        data.connect(encoder.prepare(chunk_tokens, True), encoder.prepare(chunk_tokens, False))
        loader = data.train_dataloader()
        batches = len(loader)
        seen = [(module.chunks_of(batch)[0], batch) for batch in itertools.islice(loader, 3)]
        padded = sum(c["input_ids"].numel() for rows_, _ in seen for c in rows_.chunks) / len(seen)
        kept = sum(batch.rows.num_tokens for _, batch in seen) / len(seen)
        row = max(1, round(kept / rows))
        dev = len(data.dev)
        tests = sum(len(table) for task in data.tests for table in task.subsets.values())
        notes = ()
    plan = make_plan(cfg.trainer, batches)
    scores = plan.total_steps // plan.val_steps + 2  # before the first step, and of the selected weights
    pairs = dev * scores + (tests if cfg.evaluation.final else 0)
    return Workload(
        plan.total_steps, padded, int(kept * plan.total_steps), 2.0 * pairs * min(row, kept / rows + 1), notes
    )


def _published(cfg: DictConfig, data: SentenceDataModule, error: DataError) -> int:
    if isinstance(data, STSData) and cfg.data.get("positives_from") is None:
        return PUBLISHED_STS[cfg.data.get("filter", "exact")]
    for kind, count in PUBLISHED.items():
        if isinstance(data, kind):
            return min(count, cfg.data.get("limit") or count)
    raise ConfigError(f"the plan needs the data, since no published count is known: {error}") from error
