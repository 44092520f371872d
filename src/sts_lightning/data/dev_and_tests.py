"""Dev pairs and test sets that data sets of any kind have in common: those of SentEval, or files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from datasets import Dataset

from sts_lightning.core.choices import DevSet, SentEvalText
from sts_lightning.core.errors import at_setting
from sts_lightning.core.text import check_choice
from sts_lightning.data.data_set import DEV, TEST, Splits
from sts_lightning.data.dev_suite import load_clean_stsb, load_dev_suite, without_dev_pairs
from sts_lightning.data.files import SCORED_COLUMNS, load_test_files
from sts_lightning.data.overlap import OverlapFilter, in_tests, report_common, why_dropped
from sts_lightning.data.readers.row_values import check_score_range
from sts_lightning.data.readers.sts_sets import STSTask, load_sts_tasks, load_stsb, tables_of
from sts_lightning.data.tables import SourceCount, select_rows


class DevTestOptions(TypedDict, total=False):
    """Settings of dev pairs and test sets.

    Attributes:
        senteval_text: Text of STS-B dev and the test sets (see `SentEvalText`).
        dev: Dev pairs for selection (see `DevSet`).
        dev_path: File with the user's own dev pairs; STS-B dev if not given.
        test_path: File with test pairs; the seven test sets if not given, none with ``dev_path``.
        scored_columns: Names of the columns of both sentences and the score in these files.
        score_range: Lowest and highest allowed score in these files; not checked if not given.
    """

    senteval_text: SentEvalText
    dev: DevSet
    dev_path: str | None
    test_path: str | None
    scored_columns: tuple[str, str, str]
    score_range: tuple[float, float] | None


class DevAndTests:
    """Dev pairs for selection and test tasks for the report, to go with training examples of any kind.

    Args:
        root: Data root in SentEval's layout.
        **options: See `DevTestOptions`.

    Raises:
        ValueError: An option is out of range.
    """

    def __init__(self, root: str, **options: Unpack[DevTestOptions]) -> None:
        self.root = root
        self.text: SentEvalText = options.get("senteval_text", "raw")
        check_choice("senteval_text", self.text, SentEvalText)
        self.dev: DevSet = options.get("dev", "stsb")
        self.dev_path, self.test_path = options.get("dev_path"), options.get("test_path")
        self.scored_columns = options.get("scored_columns", SCORED_COLUMNS)
        self.score_range = options.get("score_range")
        check_score_range(self.score_range)
        if self.dev_path is not None and self.dev != "stsb":
            raise ValueError(f"dev={self.dev} has no effect with dev_path; leave out one of the two.")

    def test_pairs(self) -> list[Dataset]:
        """Return the pairs of the test sets as the files have them, to compare training pairs with."""
        if self.test_path is not None:
            return tables_of([self._read(self.test_path, TEST)])
        return [] if self.dev_path is not None else tables_of(load_sts_tasks(self.root))

    def without_test_pairs(
        self, train: Dataset, counts: Sequence[SourceCount], how: OverlapFilter
    ) -> Dataset:
        """Drop the training examples with a pair that occurs in a test set, and count them; see `in_tests`.

        Args:
            train: Training examples, one source after another.
            counts: Counts of the sources; they are updated.
            how: Criterion of the filter.
        """
        tests = [] if how == "none" else self.test_pairs()
        return select_rows(train, ~in_tests(train, tests, how), counts, why_dropped(how))

    def complete(self, train: Dataset, counts: list[SourceCount], published: bool) -> Splits:
        """Return training examples with dev pairs and test tasks.

        Training pairs that are dev pairs, too, are dropped if ``dev`` is another set than STS-B dev, which
        the papers do not compare with. Otherwise those among the user's examples are reported.

        Args:
            train: Training examples, one source after another.
            counts: Counts of the sources; they are updated.
            published: Whether they are those of a paper, not the user's.
        """
        others: list[SourceCount] = []

        def read(path: str, role: str) -> STSTask:
            task = self._read(path, role)
            table = task.subsets["test"]
            others.append(SourceCount(f"{Path(path).name}, {role}", len(table)))
            report_common(train, counts, [table], f"{role} ({path})")
            return task

        if self.dev_path is not None:
            dev = read(self.dev_path, DEV).subsets["test"]
        elif self.dev == "stsb":
            if not published:  # compared by the text of the files, whatever text is read
                report_common(train, counts, [load_stsb(self.root, "dev")], f"{DEV} (STS-B dev)")
            dev = load_stsb(self.root, "dev", self.text)
        else:
            further = [] if self.test_path is None else self.test_pairs()
            load = {"suite": load_dev_suite, "stsb_clean": load_clean_stsb}[self.dev]
            dev = load(self.root, self.text, others, further)

        tests = []
        if self.test_path is not None:
            tests = [read(self.test_path, TEST)]
        elif self.dev_path is None:
            tests = load_sts_tasks(self.root, text=self.text)
            if not published:
                raw = tests if self.text == "raw" else load_sts_tasks(self.root)
                report_common(train, counts, tables_of(raw), f"{TEST} (the seven test sets)")

        # Last, so that the report above is of the training pairs as they were read.
        kept = train if self.dev == "stsb" else without_dev_pairs(train, dev, counts)
        return Splits(kept, dev, tests, counts, others)

    def _read(self, path: str, role: str) -> STSTask:
        with at_setting("data.dev_path" if role == DEV else "data.test_path"):
            [task] = load_test_files([path], self.scored_columns, self.score_range, "data.scored_columns")
        return task
