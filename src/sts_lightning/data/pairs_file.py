"""Scored pairs from the user's own CSV, TSV or JSONL file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from datasets import Dataset

from sts_lightning.data.evaluation_files import task_name
from sts_lightning.data.module import TRAINING
from sts_lightning.data.readers.row_values import BadRows
from sts_lightning.data.readers.text_files import read_records
from sts_lightning.data.scored_pairs import DEV_FRACTION, ScoredPairsData
from sts_lightning.data.training_files import Files, find_files, short_names, summary, weighted
from sts_lightning.errors import DataError

MOST_CLASSES = 10
"""Different words up to which a column in place of scores is taken for classes."""

WORD = re.compile(r"(?!(nan|inf|infinity)$)[^\W\d_][^\"'\\\\\[\]]*")
"""A word that is no number, in lower case; with other characters it cannot be typed simply."""

BARE = re.compile(r"(?!(true|false|null)$)[A-Za-z_][\w-]*", re.IGNORECASE | re.ASCII)
"""An item of a list that Hydra reads as a text without quotes."""


class PairsFileData(ScoredPairsData):
    """Scored pairs of files, with a dev split taken from them if no dev file is given.

    Scores are mapped linearly from ``score_range`` to [0, 5]. A pair that occurs more than once (in
    either order) is never split between training and dev.

    Args:
        path: Training file; ``.csv`` (quoted), ``.tsv`` (not quoted) or ``.jsonl``. Or several files, or
            files with their weights, see `Files`.
        batch_size: Pairs in a batch.
        seed: Random seed of the order and of the split.
        sentence1: Name of the column of the first sentence.
        sentence2: Name of the column of the second sentence.
        score: Name of the column of the score.
        score_range: Lowest and highest allowed score; recognised from the training scores if not given.
        dev_path: File with dev pairs.
        dev_fraction: Fraction of the pairs that becomes the dev split if ``dev_path`` is not given.
        test_path: File with test pairs for the report.
        num_workers: Number of worker processes that tokenise in the background.
        positives_from: Lowest score, on the scale of the file, of the training pairs to keep as positives
            without a label; see `ScoredPairsData`.

    Raises:
        ValueError: An argument is out of range.
    """

    def __init__(
        self,
        path: Files,
        batch_size: int,
        seed: int,
        sentence1: str = "sentence1",
        sentence2: str = "sentence2",
        score: str = "score",
        score_range: tuple[float, float] | None = None,
        dev_path: str | None = None,
        dev_fraction: float = DEV_FRACTION,
        test_path: str | None = None,
        num_workers: int = 0,
        positives_from: float | None = None,
    ) -> None:
        columns = (sentence1, sentence2, score)
        self.files = weighted(path)
        self._names: dict[str, str] = {}
        super().__init__(
            summary(list(self.files)),
            dev_path,
            test_path,
            columns,
            score_range,
            dev_fraction,
            None,
            batch_size,
            seed,
            num_workers,
            positives_from,
        )

    def training_sources(self) -> Mapping[str, float]:
        """Return the training files with their weights."""
        files = find_files(self.files)
        self._names = short_names(files)
        return files

    def read(self, source: str, role: str) -> Dataset:
        """Return the pairs of a file."""
        path = Path(source)
        name = self._names.get(source, path.name) if role == TRAINING else path.name
        setting = "data.sentence1, data.sentence2 and data.score"
        bad = BadRows()
        rows = read_records(path, self.columns, self.columns[2:], setting, bad)
        return self.table(rows, bad, role, name, lambda why, line: DataError(why, path, line))

    def place(self, source: str) -> str:
        """Return the path of a file."""
        return source

    def class_hint(self, golds: Sequence[str]) -> str | None:
        """Return the settings of ``data=classes_file`` that train on words in place of scores."""
        words = list(dict.fromkeys(gold.strip().lower() for gold in golds))
        if not 2 <= len(words) <= MOST_CLASSES or not all(map(WORD.fullmatch, words)):
            return None
        [path, *others] = self.files
        path = path if not others and re.fullmatch(r"[\w./-]+", path) else "..."
        columns, classes = (
            ",".join(item if BARE.fullmatch(item) else f'"{item}"' for item in items)
            for items in (self.columns, words)
        )
        dev = self.places[1] or "FILE"
        return (
            f"For words in place of scores: loss=cosent data=classes_file path={path} "
            f"{shlex.quote(f'data.columns=[{columns}]')} {shlex.quote(f'data.classes=[{classes}]')} "
            f"data.dev_path={dev}, with the classes from the least to the most similar"
            + ("." if self.places[1] else ", and scored pairs in FILE.")
        )

    def task_name(self, source: str) -> str:
        """Return the name of a file without its suffix, with its folder if it is that of another score."""
        return task_name(Path(source))
