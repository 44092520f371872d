"""NLI pairs with a class, and triplets of an anchor, a positive and hard negatives."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import numpy as np
from datasets import Dataset

from sts_lightning.core.choices import LabelKind
from sts_lightning.data.counts import DEFINITE_NLI_PAIRS, NLI_PAIRS, TRIPLETS
from sts_lightning.data.files import Files, only_file, short_names, weighted
from sts_lightning.data.module import sentence_columns
from sts_lightning.data.overlap import OverlapFilter, not_in, why_dropped
from sts_lightning.data.readers.nli import CLASSES, COLUMNS, read_nli_pairs
from sts_lightning.data.readers.row_values import BadRows, folded_sentence, sentence
from sts_lightning.data.readers.text_files import read_records
from sts_lightning.data.senteval_module import SentEvalData, SharedOptions
from sts_lightning.data.tables import (
    SCORE_RANGE,
    SourceCount,
    check_limit,
    make_table,
    rows_to_keep,
    sample_rows,
    select_rows,
    values_of,
)

PUBLISHED_TRIPLETS = "nli_for_simcse.csv"
"""Name of the published file."""


class NLIPairsData(SentEvalData):
    """Sentence pairs with a class (contradiction 0, neutral 1, entailment 2) or a score.

    Args:
        root: Data root, from which STS-B dev and the seven test sets are read, too.
        path: CSV, TSV or JSONL file, or several (see `Files`); ``nli/nli_pairs.tsv`` under the root if not
            given.
        batch_size: Pairs in a batch.
        seed: Random seed of the order.
        columns: Names of the columns of premise, hypothesis and label.
        classes: Names of the classes; a label is one of them, or its index.
        limit: Number of pairs to use, a fixed random sample; all if not given.
        filter: Criterion by which pairs that occur in a test set are dropped: ``none``, ``exact`` or
            ``normalized``.
        scored: Whether to replace classes by scores, as AnglE does: the last class (entailment) gets the
            highest score, the first one (contradiction) the lowest, and other pairs are dropped.
        **options: Dev and test pairs and workers, see `SharedOptions`.

    Raises:
        ValueError: An argument is out of range.
    """

    num_views = 2
    label: LabelKind = "class"

    def __init__(
        self,
        root: str,
        batch_size: int,
        seed: int,
        path: Files | None = None,
        columns: tuple[str, str, str] = COLUMNS,
        classes: tuple[str, ...] = CLASSES,
        limit: int | None = None,
        filter: OverlapFilter = "exact",
        scored: bool = False,
        **options: Unpack[SharedOptions],
    ) -> None:
        super().__init__(root, batch_size, seed, **options)
        if len(columns) != 3 or len(set(columns)) != 3:
            raise ValueError(f"columns must be three different names, got {', '.join(columns) or 'none'}.")
        self.classes = tuple(name.strip().lower() for name in classes)
        if len(set(self.classes)) < max(2, len(self.classes)):
            raise ValueError(f"classes must be at least two different names, got {list(classes)}.")
        self.num_classes = len(self.classes)
        check_limit(limit)
        if path is not None:
            weighted(path)
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
        files = self.find(self.path, "nli/nli_pairs.tsv", part="pairs")
        names = short_names(files)
        table = self.read_sources(files, lambda file: self._read(Path(file), names[file]))
        keep = np.zeros(len(table), dtype=bool)
        keep[rows_to_keep(table, not_in(self.tables_to_avoid(), self.filter))] = True
        table = select_rows(table, keep, self.counts, why_dropped(self.filter))
        if self.scored:
            top = self.num_classes - 1
            definite = np.isin(values_of(table, "label"), (0, top))
            why = self.classes[1] if self.num_classes == 3 else "neither the first nor the last class"
            table = select_rows(table, definite, self.counts, why)
            low, high = SCORE_RANGE
            columns = {name: values_of(table, name) for name in ("sentence1", "sentence2")}
            scores = [high if label == top else low for label in values_of(table, "label")]
            table = make_table({**columns, "label": scores})
        return sample_rows(table, self.limit, self.counts)

    def _read(self, path: Path, name: str) -> Dataset:
        published = self.published_rows is not None
        rows = read_nli_pairs(path, self.columns, self.classes, "data.columns", folded=published)
        self.counts.append(SourceCount(name, len(rows)))
        return make_table(
            dict(zip(("sentence1", "sentence2", "label"), zip(*rows, strict=True), strict=True))
        )


class NLITripletsData(SentEvalData):
    """Anchors with a positive and hard negatives, by default as in SimCSE's nli_for_simcse.csv.

    Args:
        root: Data root, from which STS-B dev and the seven test sets are read, too.
        path: CSV, TSV or JSONL file, or several (see `Files`); if not given, the first of
            ``nli_for_simcse.csv`` and ``nli/nli_triplets.csv`` under the root.
        batch_size: Triplets in a batch.
        seed: Random seed of the order.
        columns: Names of the columns of anchor and positive, and of the hard negatives: none, one or several.
        **options: Dev and test pairs and workers, see `SharedOptions`.

    Raises:
        ValueError: An argument is out of range.
    """

    label = "none"

    def __init__(
        self,
        root: str,
        batch_size: int,
        seed: int,
        path: Files | None = None,
        columns: tuple[str, ...] = ("sent0", "sent1", "hard_neg"),
        **options: Unpack[SharedOptions],
    ) -> None:
        super().__init__(root, batch_size, seed, **options)
        if len(columns) < 2 or len(set(columns)) != len(columns):
            raise ValueError(
                "columns must be different names, of the anchor, the positive and any hard negatives, as in "
                f"'data.columns=[anchor,positive]', got {', '.join(columns) or 'none'}."
            )
        if path is not None:
            weighted(path)
        self.path = path
        self.columns = tuple(columns)
        self.num_views = len(self.columns)
        self.unit = {2: "pairs", 3: "triplets"}.get(self.num_views, "examples")

    @property
    def published_rows(self) -> int | None:
        """Number of triplets of SimCSE's file."""
        return TRIPLETS if only_file(self.path) in (None, PUBLISHED_TRIPLETS) else None

    def load_train(self) -> Dataset:
        """Return the triplets, in file order."""
        files = self.find(self.path, PUBLISHED_TRIPLETS, "nli/nli_triplets.csv", part="triplets")
        names = short_names(files)
        return self.read_sources(files, lambda file: self._read(Path(file), names[file]))

    def _read(self, path: Path, name: str) -> Dataset:
        text = sentence if self.published_rows is None else folded_sentence
        rows, bad = [], BadRows()
        pair = ",".join(self.columns[:2])
        setting = f"data.columns, without hard negatives as in 'data.columns=[{pair}]'"
        for line, fields in read_records(path, list(self.columns), setting=setting, bad=bad):
            with bad:
                rows.append(tuple(text(field, path, line) for field in fields))
        bad.check()
        self.counts.append(SourceCount(name, len(rows)))
        return make_table(dict(zip(sentence_columns(self.num_views), zip(*rows, strict=True), strict=True)))
