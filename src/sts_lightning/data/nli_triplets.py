"""Anchors with a positive and any number of hard negatives, such as NLI triplets."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Unpack

from datasets import Dataset

from sts_lightning.choices import DevSet, SentEvalText
from sts_lightning.data.module import sentence_columns
from sts_lightning.data.pair_tables import SourceCount, make_table
from sts_lightning.data.readers.row_values import BadRows, folded_sentence, sentence
from sts_lightning.data.readers.text_files import read_records
from sts_lightning.data.senteval_module import OwnPairs, SentEvalData
from sts_lightning.data.training_files import Files, only_file, short_names, weighted
from sts_lightning.errors import DataError, MissingColumnError
from sts_lightning.published import TRIPLETS

PUBLISHED = "nli_for_simcse.csv"
"""Name of the published file."""


class NLITripletsData(SentEvalData):
    """Anchors with a positive and hard negatives, by default as in SimCSE's nli_for_simcse.csv.

    Args:
        root: Data root, from which STS-B dev and the seven test sets are read, too.
        path: CSV, TSV or JSONL file, or several (see `Files`); if not given, the first of
            ``nli_for_simcse.csv`` and ``nli/nli_triplets.csv`` under the root.
        batch_size: Triplets in a batch.
        seed: Random seed of the order.
        columns: Names of the columns of anchor and positive, and of the hard negatives: none, one or several.
        num_workers: Number of worker processes that tokenise in the background.
        senteval_text: Text of STS-B dev and the test sets (see `SentEvalText`).
        dev: Dev pairs for selection (see `DevSet`).
        **own: The user's own dev and test pairs, see `OwnPairs`.

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
        num_workers: int = 0,
        senteval_text: SentEvalText = "raw",
        dev: DevSet = "stsb",
        **own: Unpack[OwnPairs],
    ) -> None:
        super().__init__(root, batch_size, seed, num_workers, senteval_text, dev, **own)
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
        return TRIPLETS if only_file(self.path) in (None, PUBLISHED) else None

    def load_train(self) -> Dataset:
        """Return the triplets, in file order."""
        files = self.find(self.path, PUBLISHED, "nli/nli_triplets.csv", part="triplets")
        names = short_names(files)
        return self.read_sources(files, lambda file: self._read(Path(file), names[file]))

    def _read(self, path: Path, name: str) -> Dataset:
        text = sentence if self.published_rows is None else folded_sentence
        rows, bad = [], BadRows()
        try:
            for line, fields in read_records(path, list(self.columns), setting="data.columns", bad=bad):
                with bad:
                    rows.append(tuple(text(field, path, line) for field in fields))
        except MissingColumnError as error:
            pair = list(self.columns[:2])
            with contextlib.suppress(DataError):
                next(read_records(path, pair))  # only what works is suggested
                error.add_hint(f"Without hard negatives: 'data.columns=[{','.join(pair)}]'.")
            raise
        bad.check()
        self.counts.append(SourceCount(name, len(rows)))
        return make_table(dict(zip(sentence_columns(self.num_views), zip(*rows, strict=True), strict=True)))
