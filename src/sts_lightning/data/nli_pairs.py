"""NLI pairs: premise, hypothesis and class."""

from __future__ import annotations

from pathlib import Path

from datasets import Dataset

from sts_lightning.choices import LabelKind, SentEvalText
from sts_lightning.data.module import SentEvalData
from sts_lightning.data.overlap import OverlapFilter, not_in, why_dropped
from sts_lightning.data.pair_tables import (
    SCORE_RANGE,
    SourceCount,
    check_limit,
    keep_rows,
    make_table,
    sample_rows,
)
from sts_lightning.data.readers.row_values import sentence
from sts_lightning.data.readers.text_files import read_records
from sts_lightning.errors import DataError
from sts_lightning.published import DEFINITE_NLI_PAIRS, NLI_PAIRS

CLASSES = ("contradiction", "neutral", "entailment")
"""Classes in the order of similarity, so that their indices 0, 1, 2 can be regressed (STS-Regression)."""


class NLIPairsData(SentEvalData):
    """Sentence pairs with a class (contradiction 0, neutral 1, entailment 2) or a score.

    Args:
        root: Data root, from which STS-B dev and the seven test sets are read, too.
        path: CSV, TSV or JSONL file; ``nli/nli_pairs.tsv`` under the root if not given.
        batch_size: Pairs in a batch.
        seed: Random seed of the order.
        columns: Names of the columns of premise, hypothesis and label.
        limit: Number of pairs to use, a fixed random sample; all if not given.
        filter: Criterion by which pairs that occur in a test set are dropped: ``none``, ``exact`` or
            ``normalized``.
        scored: Whether to replace classes by scores, as AnglE does: entailment gets the highest score,
            contradiction the lowest, and neutral pairs are dropped.
        num_workers: Number of worker processes that tokenise in the background.
        senteval_text: Text of STS-B dev and the test sets (see `SentEvalText`).

    Raises:
        ValueError: An argument is out of range.
    """

    num_views = 2
    label: LabelKind = "class"
    num_classes = len(CLASSES)

    def __init__(
        self,
        root: str,
        batch_size: int,
        seed: int,
        path: str | None = None,
        columns: tuple[str, str, str] = ("premise", "hypothesis", "label"),
        limit: int | None = None,
        filter: OverlapFilter = "exact",
        scored: bool = False,
        num_workers: int = 0,
        senteval_text: SentEvalText = "raw",
    ) -> None:
        super().__init__(root, batch_size, seed, num_workers, senteval_text)
        if len(columns) != 3 or len(set(columns)) != 3:
            raise ValueError(f"columns must be three different names, got {', '.join(columns) or 'none'}.")
        check_limit(limit)
        self.path = path
        self.columns = tuple(columns)
        self.limit = limit
        self.filter: OverlapFilter = filter
        self.scored = scored
        if scored:
            self.label = "score"

    @property
    def published_rows(self) -> int | None:
        """Number of pairs of SNLI and MultiNLI, without the neutral ones if ``scored``."""
        if self.path is not None:
            return None
        return DEFINITE_NLI_PAIRS if self.scored else NLI_PAIRS

    def load_train(self) -> Dataset:
        """Return the pairs, in file order."""
        path = self.find(self.path, "nli/nli_pairs.tsv", part="pairs")
        rows = [
            (
                sentence(premise, path, line),
                sentence(hypothesis, path, line),
                _class(label, path, line),
            )
            for line, (premise, hypothesis, label) in read_records(
                path, list(self.columns), numbers=self.columns[2:]
            )
        ]
        whole = make_table(
            dict(zip(("sentence1", "sentence2", "label"), zip(*rows, strict=True), strict=True))
        )
        table = keep_rows(whole, not_in(self.tables_to_avoid(), self.filter))
        dropped = {why_dropped(self.filter): len(whole) - len(table)}
        if self.scored:
            definite = [index for index, label in enumerate(table["label"]) if label != 1]
            dropped["neutral"] = len(table) - len(definite)
            table = table.select(definite)
            low, high = SCORE_RANGE
            columns = {name: list(table[name]) for name in ("sentence1", "sentence2")}
            scores = [high if label == 2 else low for label in table["label"]]
            table = make_table({**columns, "label": scores})
        table, dropped["data.limit"] = sample_rows(table, self.limit)
        self.counts.append(SourceCount(path.name, len(whole), dropped))
        return table


def _class(text: str, path: Path, line: int) -> int:
    """Return the index of a class given by name or by index.

    Raises:
        DataError: The text is neither.
    """
    word = text.strip().lower()
    if word in CLASSES:
        return CLASSES.index(word)
    if word in {"0", "1", "2"}:
        return int(word)
    raise DataError(f"the label {text!r} is not {', '.join(CLASSES)} (or 0, 1, 2 in this order).", path, line)
