"""Training data of any kind with the dev and test sets of SentEval, or with the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack, get_args

from datasets import Dataset

from sts_lightning.choices import DevSet, SentEvalText
from sts_lightning.data.dev_suite import load_clean_stsb, load_dev_suite, without_dev_pairs
from sts_lightning.data.fetch.hints import fetch_hint
from sts_lightning.data.files import SCORED_COLUMNS, Files, find_files, load_test_files, weighted
from sts_lightning.data.module import DEV, TEST, SentenceDataModule
from sts_lightning.data.overlap import report_common
from sts_lightning.data.pair_tables import SourceCount
from sts_lightning.data.readers.row_values import checked_range
from sts_lightning.data.readers.senteval import STSTask, load_sts_tasks, load_stsb
from sts_lightning.errors import DataError, at_setting


class OwnPairs(TypedDict, total=False):
    """The user's own scored pairs instead of STS-B dev and the seven test sets.

    Attributes:
        dev_path: File with dev pairs; STS-B dev if not given.
        test_path: File with test pairs; the seven test sets if not given, none with ``dev_path``.
        scored_columns: Names of the columns of both sentences and the score in these files.
        score_range: Lowest and highest allowed score in these files; not checked if not given.
    """

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
        num_workers: Number of worker processes that tokenise in the background.
        senteval_text: Text of STS-B dev and the test sets (see `SentEvalText`).
        dev: Dev pairs for selection (see `DevSet`).
        **own: The user's own pairs in place of these, see `OwnPairs`.
    """

    def __init__(
        self,
        root: str,
        batch_size: int,
        seed: int,
        num_workers: int = 0,
        senteval_text: SentEvalText = "raw",
        dev: DevSet = "stsb",
        **own: Unpack[OwnPairs],
    ) -> None:
        super().__init__(batch_size, seed, num_workers)
        if senteval_text not in get_args(SentEvalText):
            known = ", ".join(get_args(SentEvalText))
            raise ValueError(f"senteval_text must be one of {known}, got {senteval_text!r}.")
        self.root = root
        if dev not in get_args(DevSet):
            raise ValueError(f"dev must be one of {', '.join(get_args(DevSet))}, got {dev!r}.")
        self.senteval_text: SentEvalText = senteval_text
        self.dev_set: DevSet = dev
        if (score_range := own.get("score_range")) is not None:
            checked_range(score_range)
        if own.get("dev_path") is None and own.get("test_path") is None:
            columns = tuple(own.get("scored_columns", SCORED_COLUMNS))
            for name, set_ in (("scored_columns", columns != SCORED_COLUMNS), ("score_range", score_range)):
                if set_:
                    raise ValueError(f"{name} has no effect without dev_path or test_path.")
        if own.get("dev_path") is not None and dev != "stsb":
            raise ValueError(f"dev={dev} has no effect with dev_path; leave out one of the two.")
        self.own = own

    def load_dev(self) -> Dataset:
        """Return the user's own dev pairs, or those of `DevSet`."""
        path = self.own.get("dev_path")
        if path is not None:
            return self._load_own(path, DEV).subsets["test"]
        if self.dev_set == "stsb":
            if self.published_rows is None:  # the user's own training data
                self._report_common([load_stsb(self.root, "dev")], f"{DEV} (STS-B dev)")
            return load_stsb(self.root, "dev", self.senteval_text)
        own = [] if self.own.get("test_path") is None else self.tables_to_avoid()
        load = load_dev_suite if self.dev_set == "suite" else load_clean_stsb
        return load(self.root, self.senteval_text, self.counts, own)

    def without_dev(self, train: Dataset) -> Dataset:
        """Return the training examples without those that contain a dev pair; with STS-B dev all of them."""
        return train if self.dev_set == "stsb" else without_dev_pairs(train, self.dev, self.sources)

    def load_tests(self) -> list[STSTask]:
        """Return the user's own test pairs as one task, or the seven test sets."""
        path = self.own.get("test_path")
        if path is not None:
            return [self._load_own(path, TEST)]
        if self.own.get("dev_path") is not None:
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
        columns = self.own.get("scored_columns") or SCORED_COLUMNS
        return load_test_files([path], columns, self.own.get("score_range"), "data.scored_columns")[0]

    def tables_to_avoid(self) -> list[Dataset]:
        """Return the pairs of the test sets as the files have them, to compare training pairs with."""
        path = self.own.get("test_path")
        if path is not None:
            tasks = [self._read_own(path)]
        else:
            tasks = [] if self.own.get("dev_path") is not None else load_sts_tasks(self.root)
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
