"""Dev data and test sets that data sets of any kind have in common: SentEval's, files, or rows held out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np

from sts_lightning.core.choices import DevSet, SentEvalText
from sts_lightning.core.errors import DataError, at_setting, check_choice
from sts_lightning.data.data_set import DEV, TEST, Splits
from sts_lightning.data.judged_files import (
    SCORED_COLUMNS,
    load_test_files,
    read_beir,
    recognise_task,
    task_name,
)
from sts_lightning.data.overlap import OverlapFilter, pair_key, pairs_in_tables, report_common, why_dropped
from sts_lightning.data.ranking import CANDIDATES, Ranking, hold_out, rank_classes
from sts_lightning.data.readers.layouts import read_labeled
from sts_lightning.data.readers.row_values import check_score_range
from sts_lightning.data.readers.sts_sets import load_sts_tasks, load_stsb, tables_of
from sts_lightning.data.table import CLASS, SourceCount, Table, require_varied_scores
from sts_lightning.data.tasks import Dev, Task, pairs_in


class DevTestOptions(TypedDict, total=False):
    """Settings of dev pairs and test sets.

    Attributes:
        senteval_text: Text of STS-B dev and the test sets (see `SentEvalText`).
        dev: Dev pairs for selection (see `DevSet`).
        dev_path: File with the user's own dev pairs, or rows of a query and its answers, or a folder of
            BEIR's; STS-B dev if not given.
        test_path: The same for the report; the seven test sets if not given, none with ``dev_path``.
        scored_columns: Names of the columns of both sentences and the score in these files.
        score_range: Lowest and highest allowed score in these files; not checked if not given.
    """

    senteval_text: SentEvalText
    dev: DevSet
    dev_path: str | None
    test_path: str | None
    scored_columns: tuple[str, str, str]
    score_range: tuple[float, float] | None


class RowOptions(DevTestOptions, total=False):
    """Settings of dev data that rows of a query and its answers, or texts with classes, have besides.

    Attributes:
        seed: Random seed of the anchors that are held out.
        dev_fraction: Fraction of the anchors that is held out to select by; 0 or None: by scored pairs.
        dev_candidates: Maximum number of texts that a held-out query ranks.
        keep_general: Whether the seven STS tasks are reported, before training and after it.
    """

    seed: int
    dev_fraction: float | None
    dev_candidates: int
    keep_general: bool


class DevAndTests:
    """Dev data for selection and test tasks for the report, to go with training examples of any kind.

    Args:
        root: Data root in SentEval's layout.
        **options: See `RowOptions`.

    Raises:
        ValueError: An option is out of range.
    """

    def __init__(self, root: str, **options: Unpack[RowOptions]) -> None:
        self.root = root
        self.text: SentEvalText = options.get("senteval_text", "raw")
        check_choice("senteval_text", self.text, SentEvalText)
        self.dev: DevSet = options.get("dev", "stsb")
        check_choice("dev", self.dev, DevSet)
        self.dev_path, self.test_path = options.get("dev_path"), options.get("test_path")
        self.scored_columns = options.get("scored_columns", SCORED_COLUMNS)
        self.score_range = options.get("score_range")
        check_score_range(self.score_range)
        self.seed = options.get("seed", 1)
        fraction = options.get("dev_fraction") or 0.0
        if not 0 <= fraction < 1:
            raise ValueError(f"dev_fraction must lie in [0, 1), got {fraction}.")
        self.fraction = fraction if self.dev == "stsb" and self.dev_path is None else 0.0
        self.candidates = options.get("dev_candidates", CANDIDATES)
        if self.candidates < 2:
            raise ValueError(f"dev_candidates must be at least 2, got {self.candidates}.")
        self.keep_general = options.get("keep_general", False)
        if self.dev_path is not None and self.dev != "stsb":
            raise ValueError(f"dev={self.dev} has no effect with dev_path; leave out one of the two.")

    def test_pairs(self) -> list[Table]:
        """Return the pairs of the test sets as the files have them, to compare training pairs with."""
        seven = load_sts_tasks(self.root) if self._reports_seven else []
        return [*self._own_test_pairs(), *tables_of(seven)]

    def _own_test_pairs(self) -> list[Table]:
        return [] if self.test_path is None else pairs_in([self._read(self.test_path, TEST)])

    @property
    def _reports_seven(self) -> bool:
        """Whether the report is on the seven test sets."""
        own = self.dev_path is not None or self.test_path is not None or self.fraction > 0
        return self.keep_general or not own

    def without_test_pairs(self, train: Table, how: OverlapFilter) -> Table:
        """Drop the training examples with a pair that occurs in a test set, and count them.

        Args:
            train: Training examples.
            how: Criterion of the filter.
        """
        tests = [] if how == "none" else self.test_pairs()
        return train.drop(pairs_in_tables(tests, how).rows_in(train), why_dropped(how))

    def complete(self, train: Table, published: bool) -> Splits:
        """Return training examples with dev data and test tasks.

        Where a fraction of the anchors is held out (`hold_out`), it is taken from the training examples.
        Training pairs that are dev pairs, too, are dropped with ``dev=stsb_clean``, but not with STS-B dev,
        which the papers do not compare with: those among the user's examples are reported.

        Args:
            train: Training examples.
            published: Whether they are those of a paper, not the user's.
        """
        others: list[SourceCount] = []

        def read(path: str, role: str) -> Task:
            task = self._read_classes(train, path, role) or self._read(path, role)
            size = len(task) if isinstance(task, Ranking) else len(task.subsets["test"])
            others.append(SourceCount(f"{Path(path).name}, {role}", size))
            report_common(train, pairs_in([task]), f"{role} ({path})")
            return task

        dev: Dev
        if self.fraction:
            train, dev = hold_out(train, self.fraction, self.candidates, self.seed)
        elif self.dev_path is not None:
            task = read(self.dev_path, DEV)
            dev = task if isinstance(task, Ranking) else task.subsets["test"]
        elif self.dev == "stsb":
            if not published:  # compared by the text of the files, whatever text is read
                report_common(train, [load_stsb(self.root, "dev")], f"{DEV} (STS-B dev)")
            dev = load_stsb(self.root, "dev", self.text)
        else:
            dev = clean = load_clean_stsb(self.root, self.text, self._own_test_pairs())
            others += clean.sources

        tests: list[Task] = []
        if self.test_path is not None:
            tests = [read(self.test_path, TEST)]
        if self._reports_seven:
            tests += (seven := load_sts_tasks(self.root, text=self.text))
            if len({task.name for task in tests}) < len(tests):
                raise DataError(
                    f"{tests[0].name} is the name of one of the seven test sets, too; rename the file.",
                    self.test_path,
                    key="data.test_path",
                )
            if not published:
                raw = seven if self.text == "raw" else load_sts_tasks(self.root)
                report_common(train, tables_of(raw), f"{TEST} (the seven test sets)")

        # Last, so that the report above is of the training pairs as they were read.
        if self.dev == "stsb_clean":
            train = train.drop(pairs_in_tables([clean], "normalized").rows_in(train), "in the dev set")
        return Splits(train, dev, tests, others)

    def _read(self, path: str, role: str) -> Task:
        with at_setting("data.dev_path" if role == DEV else "data.test_path"):
            if Path(path).is_dir():
                return read_beir(Path(path), "dev" if role == DEV else "test")
            [task] = load_test_files([path], self.scored_columns, self.score_range, "data.scored_columns")
        return task

    def _read_classes(self, train: Table, path: str, role: str) -> Ranking | None:
        """Read texts with classes, which rank those that train; None if the file has others."""
        layout = recognise_task(Path(path)) if CLASS in train.columns and Path(path).is_file() else None
        if layout is None or layout.kind != "classes":
            return None
        among = list(zip(train["sentence1"], train[CLASS], strict=True))
        with at_setting("data.dev_path" if role == DEV else "data.test_path"):
            rows = read_labeled(Path(path), layout, "path")
            return rank_classes(task_name(Path(path)) if role == TEST else "dev", rows, path, among)


def load_clean_stsb(root: str, text: SentEvalText, own_tests: Sequence[Table] = ()) -> Table:
    """Load the pairs of STS-B dev that are in no test set, each once.

    Pairs are compared in either order, by lower-cased letters and digits.

    Args:
        root: Data root in SentEval's layout.
        text: Text of the pairs.
        own_tests: Test pairs besides the seven test sets.

    Raises:
        DataError: A file is missing or malformed, or no varied scores are left.
    """
    # Rows are chosen by the text of the files, so that they are the same whatever text is read.
    files = load_stsb(root, "dev")
    tests = pairs_in_tables([*own_tests, *tables_of(load_sts_tasks(root))], "normalized").rows_in(files)
    seen, repeated = set[Hashable](), []
    for pair in files.pairs:
        repeated.append((key := pair_key(*pair, "normalized")) in seen)
        seen.add(key)
    dev = load_stsb(root, "dev", text).read_from("STS-B dev").drop(tests, why_dropped("normalized"))
    dev = dev.drop(np.array(repeated)[~tests], "in the dev set before")
    require_varied_scores(dev, "dev=stsb_clean")
    return dev
