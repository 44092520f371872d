"""NLI triplets: premise, entailed hypothesis, contradicting hypothesis."""

from __future__ import annotations

from pathlib import Path

from datasets import Dataset

from sts_lightning.choices import SentEvalText
from sts_lightning.data.module import COLUMNS, SentEvalData
from sts_lightning.data.pair_tables import SourceCount, make_table
from sts_lightning.data.readers.row_values import sentence
from sts_lightning.data.readers.text_files import read_records
from sts_lightning.published import TRIPLETS

PUBLISHED = "nli_for_simcse.csv"
"""Name of the published file."""


class NLITripletsData(SentEvalData):
    """Anchors with a positive and a hard negative, in the format of SimCSE's nli_for_simcse.csv.

    Args:
        root: Data root, from which STS-B dev and the seven test sets are read, too.
        path: CSV file with the columns ``sent0``, ``sent1``, ``hard_neg``; if not given, the first of
            ``nli_for_simcse.csv`` and ``nli/nli_triplets.csv`` under the root.
        batch_size: Triplets in a batch.
        seed: Random seed of the order.
        num_workers: Number of worker processes that tokenise in the background.
        senteval_text: Text of STS-B dev and the test sets (see `SentEvalText`).
    """

    num_views = 3
    label = "none"
    unit = "triplets"

    def __init__(
        self,
        root: str,
        batch_size: int,
        seed: int,
        path: str | None = None,
        num_workers: int = 0,
        senteval_text: SentEvalText = "raw",
    ) -> None:
        super().__init__(root, batch_size, seed, num_workers, senteval_text)
        self.path = path

    @property
    def published_rows(self) -> int | None:
        """Number of triplets of SimCSE's file."""
        return TRIPLETS if self.path is None or Path(self.path).name == PUBLISHED else None

    def load_train(self) -> Dataset:
        """Return the triplets, in file order."""
        path = self.find(self.path, PUBLISHED, "nli/nli_triplets.csv", part="triplets")
        rows = [
            tuple(sentence(field, path, line) for field in fields)
            for line, fields in read_records(path, ["sent0", "sent1", "hard_neg"])
        ]
        self.counts.append(SourceCount(path.name, len(rows)))
        return make_table(dict(zip(COLUMNS, zip(*rows, strict=True), strict=True)))
