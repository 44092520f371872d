"""Training data of any kind with the dev and test sets of SentEval, or with the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack, get_args

from datasets import Dataset

from sts_lightning.core.choices import DevSet, SentEvalText
from sts_lightning.core.errors import DataError, at_setting
from sts_lightning.data.dev_suite import load_clean_stsb, load_dev_suite, without_dev_pairs
from sts_lightning.data.fetch.hints import fetch_hint
from sts_lightning.data.files import SCORED_COLUMNS, Files, find_files, load_test_files, weighted
from sts_lightning.data.module import DEV, TEST, SentenceDataModule
from sts_lightning.data.overlap import report_common
from sts_lightning.data.readers.row_values import checked_range
from sts_lightning.data.readers.sts_sets import STSTask, load_sts_tasks, load_stsb
from sts_lightning.data.tables import SourceCount


class SharedOptions(TypedDict, total=False):
    """What all data sets have in common that select on STS-B dev and report the seven test sets.

    Attributes:
        num_workers: Number of worker processes that tokenise in the background.
        senteval_text: Text of STS-B dev and the test sets (see `SentEvalText`).
        dev: Dev pairs for selection (see `DevSet`).
        dev_path: File with the user's own dev pairs; STS-B dev if not given.
        test_path: File with test pairs; the seven test sets if not given, none with ``dev_path``.
        scored_columns: Names of the columns of both sentences and the score in these files.
        score_range: Lowest and highest allowed score in these files; not checked if not given.
    """

    num_workers: int
    senteval_text: SentEvalText
    dev: DevSet
    dev_path: str | None
    test_path: str | None
    scored_columns: tuple[str, str, str]
    score_range: tuple[float, float] | None


class SentEvalData(SentenceDataModule):
    """Training data of any kind, with dev pairs for selection and the seven STS test sets.

    Args:
        root: Data root in SentEval's layout.
        batch_size: Examples in a training batch.
        seed: Random seed of the order of training examples.
        **options: Dev and test pairs and workers, see `SharedOptions`.
    """

    def __init__(self, root: str, batch_size: int, seed: int, **options: Unpack[SharedOptions]) -> None:
        super().__init__(batch_size, seed, options.get("num_workers", 0))
        self.root = root
        self.senteval_text: SentEvalText = options.get("senteval_text", "raw")
        if self.senteval_text not in get_args(SentEvalText):
            raise ValueError(f"senteval_text must be raw or prepared, got {self.senteval_text!r}.")
        self.dev_set: DevSet = options.get("dev", "stsb")
        self.dev_path, self.test_path = options.get("dev_path"), options.get("test_path")
        self.scored_columns = options.get("scored_columns", SCORED_COLUMNS)
        self.score_range = options.get("score_range")
        if self.score_range is not None:
            checked_range(self.score_range)
        if self.dev_path is not None and self.dev_set != "stsb":
            raise ValueError(f"dev={self.dev_set} has no effect with dev_path; leave out one of the two.")

    def load_dev(self) -> Dataset:
        """Return the user's own dev pairs, or those of `DevSet`."""
        if self.dev_path is not None:
            return self._load_own(self.dev_path, DEV).subsets["test"]
        if self.dev_set == "stsb":
            if self.published_rows is None:  # the user's own training data
                self._report_common([load_stsb(self.root, "dev")], f"{DEV} (STS-B dev)")
            return load_stsb(self.root, "dev", self.senteval_text)
        own = [] if self.test_path is None else self.tables_to_avoid()
        load = {"suite": load_dev_suite, "stsb_clean": load_clean_stsb}[self.dev_set]
        return load(self.root, self.senteval_text, self.counts, own)

    def without_dev(self, train: Dataset) -> Dataset:
        """Return the training examples without those that contain a dev pair; with STS-B dev all of them."""
        return train if self.dev_set == "stsb" else without_dev_pairs(train, self.dev, self.sources)

    def load_tests(self) -> list[STSTask]:
        """Return the user's own test pairs as one task, or the seven test sets."""
        if self.test_path is not None:
            return [self._load_own(self.test_path, TEST)]
        if self.dev_path is not None:
            return []
        tasks = load_sts_tasks(self.root, text=self.senteval_text)
        if self.published_rows is None:
            raw = tasks if self.senteval_text == "raw" else load_sts_tasks(self.root)
            tables = [table for task in raw for table in task.subsets.values()]
            self._report_common(tables, f"{TEST} (the seven test sets)")
        return tasks

    def _load_own(self, path: str, role: str) -> STSTask:
        with at_setting("data.dev_path" if role == DEV else "data.test_path"):
            task = self._read_own(path)
        table = task.subsets["test"]
        self.counts.append(SourceCount(f"{Path(path).name}, {role}", len(table)))
        self._report_common([table], f"{role} ({path})")
        return task

    def _report_common(self, tables: Sequence[Dataset], where: str) -> None:
        """Warn of training pairs that also occur in other pairs, both with the text of their files."""
        if "sentence2" in self.train.column_names:
            report_common(self.train, self.sources, tables, where)

    def _read_own(self, path: str) -> STSTask:
        return load_test_files([path], self.scored_columns, self.score_range, "data.scored_columns")[0]

    def tables_to_avoid(self) -> list[Dataset]:
        """Return the pairs of the test sets as the files have them, to compare training pairs with."""
        if self.test_path is not None:
            tasks = [self._read_own(self.test_path)]
        else:
            tasks = [] if self.dev_path is not None else load_sts_tasks(self.root)
        return [table for task in tasks for table in task.subsets.values()]

    def find(self, path: Files | None, *names: str, part: str) -> dict[str, float]:
        """Return the files of a setting if given, otherwise the first of ``names`` under the root.

        Args:
            path: Value of the setting, or None.
            names: Paths below the root.
            part: Argument of ``sts-lightning data get`` that fetches the first of them.

        Raises:
            DataError: None of them exists.
        """
        if path is not None:
            return find_files(weighted(path))
        for name in names:
            if (Path(self.root) / name).is_file():
                return {str(Path(self.root) / name): 1.0}
        raise DataError(
            f"no {' or '.join(names)} here; name the file with path=...",
            self.root,
            hint=fetch_hint(part, self.root),
        )
