"""Scores of an encoder on the dev pairs and the test tasks, and the pairs where it is far from the gold."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from omegaconf import DictConfig
from scipy.stats import rankdata

from sts_lightning.core.choices import TextFound
from sts_lightning.data.module import DataModule
from sts_lightning.data.ranking import Ranking
from sts_lightning.data.readers.sts_sets import STSTask, tables_of
from sts_lightning.data.table import NEGATIVES, Table, gold_of
from sts_lightning.data.tasks import rankings_of, scored_tasks
from sts_lightning.evaluation.binary import best_thresholds, is_binary, score_binary
from sts_lightning.evaluation.dev_scores import ranking_entry, score_dev
from sts_lightning.evaluation.encoding import ShardedEncoder
from sts_lightning.evaluation.retrieval import encode_ranking
from sts_lightning.evaluation.sts import TestResult, encode_tables, score_test, table_cosines
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.runs.metrics import main_score
from sts_lightning.runs.predictions import OfTask, found_on, of_pairs

if TYPE_CHECKING:
    from sts_lightning.papers.vector_ranks import RankResult

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Scores:
    """Scores of an encoder on the dev data and, if asked for, on the test tasks.

    Attributes:
        dev: Entry of the dev data in the results of a run.
        dev_found: Cosines and gold scores of the dev pairs, or scores of the dev queries.
        test: Entry of the test tasks.
        test_found: What was found on each test task, as of the dev data.
        ranks: Ranks of the vectors of the test tasks.
    """

    dev: Mapping[str, Any]
    dev_found: OfTask
    test: TestResult | None
    test_found: Mapping[str, OfTask]
    ranks: RankResult | None = None

    @property
    def dev_score(self) -> float:
        """The dev score that selects weights, times 100."""
        return main_score(self.dev)


def how_scored(encoder: SentenceEncoder, data: DataModule, cfg: DictConfig, scores: Scores) -> dict[str, Any]:
    """Return what the results of a run state of its seed, encoder and data, and the ranks of its vectors."""
    return {
        "seed": cfg.seed,
        "precision": encoder.precision,
        "quantization": cfg.model.get("quantization", "none"),
        **encoder.evaluation_text,
        "senteval_text": data.text,
        "data": [asdict(count) | {"kept": count.kept} for count in data.counts],
        "content": data.content,
        **({} if scores.ranks is None else {"rank": scores.ranks}),
    }


def title_of_table(encoder: SentenceEncoder, text: TextFound | None, what: str, *how: str) -> str:
    """Return the title of a table of scores.

    Args:
        encoder: The encoder that was scored.
        text: Text of the sentences, see `how_scored`.
        what: What the scores are.
        *how: How they were computed.
    """
    read = () if text is None else (f"senteval_text={text}",)
    settings = (*how, encoder.precision, f"text_edit={encoder.config.text_edit}", *read)
    return f"{what} ({', '.join(settings)})"


def score(encoder: SentenceEncoder, data: DataModule, evaluation: DictConfig) -> Scores:
    """Score dev data and test tasks, with the sentences of all scored pairs encoded in one go.

    Args:
        encoder: The encoder, which is left in the precision of the report; in every process, if several
            have been started.
        data: Dev data and test tasks.
        evaluation: The group ``evaluation``.
    """
    precision = evaluation.precision or encoder.precision
    if precision != encoder.precision:
        encoder.set_precision(precision)
    sharded = ShardedEncoder(encoder)
    tasks = data.tests if evaluation.final else []
    scored = scored_tasks(tasks)
    tables = tables_of(scored)
    pairs = [] if isinstance(data.dev, Ranking) else [data.dev]
    vectors = encode_tables(sharded, [*pairs, *tables]) if pairs or tables else None
    cosines = [] if vectors is None else table_cosines(vectors, [*pairs, *tables])
    thresholds = None
    dev_found: OfTask
    if isinstance(data.dev, Ranking):
        dev_found = encode_ranking(sharded.encode, data.dev)
        dev = ranking_entry(dev_found, data.dev)
    else:
        gold, dev_cosines = gold_of([data.dev]), cosines.pop(0)
        dev, dev_found = {**score_dev(dev_cosines, data.dev)}, (dev_cosines, gold)
        if is_binary(gold):
            thresholds = best_thresholds(dev_cosines, gold)
            dev["binary"] = score_binary(dev_cosines, gold)
    values = {task.name: encode_ranking(sharded.encode, task) for task in rankings_of(tasks)}
    test = score_test(tasks, cosines, values, evaluation.aggregate, thresholds) if tasks else None
    ranks: RankResult | None = None
    if scored and vectors is not None and evaluation.rank:
        from sts_lightning.papers.vector_ranks import rank_tasks  # few runs ask for it

        ranks = rank_tasks(scored, vectors)
    return Scores(dev, dev_found, test, found_on(tasks, cosines, values), ranks)


@dataclass(frozen=True)
class Disagreement:
    """A pair with its cosine and gold score, and the place of each among those of the task.

    Attributes:
        task: Name of the task.
        sentence1: First sentence.
        sentence2: Second sentence.
        gold: Gold score.
        cosine: Cosine.
        gold_place: Share of the pairs of the task with a lower gold score, in [0, 1], ties counting half.
        cosine_place: The same of the cosine.
    """

    task: str
    sentence1: str
    sentence2: str
    gold: float
    cosine: float
    gold_place: float
    cosine_place: float


def find_disagreements(
    tasks: Sequence[STSTask], found: Mapping[str, OfTask], count: int = 20
) -> list[Disagreement]:
    """Find the pairs whose places by cosine and by gold score differ most, the largest difference first.

    Places are compared, not scores, since Spearman's correlation is what is reported. A pair that a task has
    twice is found once.

    Args:
        tasks: Tasks with scored pairs.
        found: What was found on each of them.
        count: Number of pairs.
    """
    disagreements: list[Disagreement] = []
    for task in tasks:
        similarities, gold = of_pairs(found)[task.name]
        pairs = [pair for table in task.subsets.values() for pair in table.pairs]
        places = [(rankdata(values) - 0.5) / len(values) for values in (gold, similarities)]
        distinct: dict[tuple[str, str], Disagreement] = {}
        for row in np.argsort(-np.abs(places[0] - places[1]), kind="stable"):
            if len(distinct) == count:
                break
            shown = (float(values[row]) for values in (gold, similarities, *places))
            distinct.setdefault(pairs[row], Disagreement(task.name, *pairs[row], *shown))
        disagreements += distinct.values()
    disagreements.sort(key=lambda pair: -abs(pair.gold_place - pair.cosine_place))
    return disagreements[:count]


SAMPLED_ROWS = 10_000
"""Rows of a table that are looked at; of more, some at equal distances."""

MANY_UNKNOWN = 0.1
"""Share of unknown tokens from which there is a warning."""


def report_truncation(
    encoder: SentenceEncoder, evaluated: Sequence[Table], trained: Table | None = None
) -> None:
    """Log the shares of the texts that an encoder truncates, and of the tokens that it does not know."""
    parts = [("dev and test texts", evaluated, encoder.tokenizer.evaluation_length)]
    if trained is not None:
        parts.insert(0, ("training texts", [trained], encoder.tokenizer.max_length))
    report_unseen(encoder, [(name, columns_of(tables), length) for name, tables, length in parts])


def columns_of(tables: Sequence[Table]) -> list[Sequence[str | None]]:
    """Return the columns of tables that hold sentences."""
    columns = [table[name] for table in tables for name in table.columns if name.startswith("sentence")]
    lists = [table[NEGATIVES] for table in tables if NEGATIVES in table.columns]
    # Of joint data another part has None.
    return columns + [[text for listed in column for text in listed or ()] for column in lists]


def report_unseen(
    encoder: SentenceEncoder, parts: Sequence[tuple[str, Sequence[Sequence[str | None]], int | None]]
) -> None:
    """Log what an encoder does not see of texts; `SentenceEncoder.encode` does not warn of it again.

    Args:
        encoder: The encoder.
        parts: Name, columns of texts, and the number of tokens after which they are truncated.
    """
    words, shares = [], []
    for name, columns, length in parts:
        sampled = [column[:: -(-len(column) // SAMPLED_ROWS) or 1] for column in columns]
        seen: set[str | None] = set()
        found = []
        for column in sampled:
            texts = [text for text in {*column} - seen if text is not None]
            seen |= {*texts}
            found.append(encoder.tokenizer.count_unseen(texts, length))
        where = "" if length is None else f" (after {length} tokens)"
        whole = "a sample of the " if any(len(column) > SAMPLED_ROWS for column in columns) else "the "
        truncated = sum(unseen.truncated for unseen in found) / max(1, len(seen))
        words.append(f"{100 * truncated:.3g} % of {whole}{name}{where}")
        tokens = max(1, sum(unseen.tokens for unseen in found))
        # Among many files one may be in another language.
        most = max((unseen.unknown / max(1, unseen.tokens) for unseen in found), default=0.0)
        shares.append((name, sum(unseen.unknown for unseen in found) / tokens, most))
    unknown = ", ".join(f"{100 * share:.3g} %" for _, share, _ in shares)
    log.info("truncated by max_length: %s; unknown tokens: %s", ", ".join(words), unknown)
    for name, share, most in shares:
        if most > MANY_UNKNOWN:
            log.warning(
                "WARNING: %.3g %% of the tokens of %s%s are unknown to the model's tokenizer, to which all "
                "such words are the same; choose a model that knows their language or signs.",
                100 * (share if share > MANY_UNKNOWN else most),
                "the " if share > MANY_UNKNOWN else "a column of the ",
                name,
            )
    encoder.tells_truncation = False
