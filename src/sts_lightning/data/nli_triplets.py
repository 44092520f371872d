"""NLI triplets: premise, entailed hypothesis, contradicting hypothesis."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from datasets import Dataset

from sts_lightning.choices import DevSet, SentEvalText
from sts_lightning.data.module import COLUMNS
from sts_lightning.data.pair_tables import SourceCount, make_table
from sts_lightning.data.readers.row_values import BadRows, folded_sentence, sentence
from sts_lightning.data.readers.text_files import read_records
from sts_lightning.data.senteval_module import OwnPairs, SentEvalData
from sts_lightning.data.training_files import Files, only_file, short_names, weighted
from sts_lightning.published import TRIPLETS

PUBLISHED = "nli_for_simcse.csv"
"""Name of the published file."""


class NLITripletsData(SentEvalData):
    """Anchors with a positive and a hard negative, in the format of SimCSE's nli_for_simcse.csv.

    Args:
        root: Data root, from which STS-B dev and the seven test sets are read, too.
        path: CSV, TSV or JSONL file, or several (see `Files`); if not given, the first of
            ``nli_for_simcse.csv`` and ``nli/nli_triplets.csv`` under the root.
        batch_size: Triplets in a batch.
        seed: Random seed of the order.
        columns: Names of the columns of anchor, positive and hard negative.
        num_workers: Number of worker processes that tokenise in the background.
        senteval_text: Text of STS-B dev and the test sets (see `SentEvalText`).
        dev: Dev pairs for selection (see `DevSet`).
        **own: The user's own dev and test pairs, see `OwnPairs`.

    Raises:
        ValueError: An argument is out of range.
    """

    num_views = 3
    label = "none"
    unit = "triplets"

    def __init__(
        self,
        root: str,
        batch_size: int,
        seed: int,
        path: Files | None = None,
        columns: tuple[str, str, str] = ("sent0", "sent1", "hard_neg"),
        num_workers: int = 0,
        senteval_text: SentEvalText = "raw",
        dev: DevSet = "stsb",
        **own: Unpack[OwnPairs],
    ) -> None:
        super().__init__(root, batch_size, seed, num_workers, senteval_text, dev, **own)
        if len(columns) != 3 or len(set(columns)) != 3:
            raise ValueError(f"columns must be three different names, got {', '.join(columns) or 'none'}.")
        if path is not None:
            weighted(path)
        self.path = path
        self.columns = tuple(columns)

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
        for line, fields in read_records(path, list(self.columns), setting="data.columns", bad=bad):
            with bad:
                rows.append(tuple(text(field, path, line) for field in fields))
        bad.check()
        self.counts.append(SourceCount(name, len(rows)))
        return make_table(dict(zip(COLUMNS, zip(*rows, strict=True), strict=True)))
