"""SentEval's classification data: seven transfer tasks and ten probing tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sts_lightning.core.errors import DataError
from sts_lightning.data.fetch import PROBING_TASKS, fetched_by
from sts_lightning.data.readers.lines import numbered_lines, read_lines, read_tsv
from sts_lightning.data.readers.row_values import folded_sentence, parse_rows
from sts_lightning.data.readers.sts_sets import check_count, check_names, senteval_folder

BINARY = {
    "MR": ("MR/rt-polarity.neg", "MR/rt-polarity.pos"),
    "CR": ("CR/custrev.neg", "CR/custrev.pos"),
    "SUBJ": ("SUBJ/subj.subjective", "SUBJ/subj.objective"),
    "MPQA": ("MPQA/mpqa.neg", "MPQA/mpqa.pos"),
}
"""Files of class 0 and class 1 of the tasks without splits."""

TRANSFER_TASKS = (*BINARY, "SST2", "TREC", "MRPC")
"""The seven tasks whose average is reported."""


@dataclass(frozen=True)
class Split:
    """Sentences or sentence pairs with their classes.

    Attributes:
        sentences: One sentence, or the two of a pair, per example.
        labels: Class indices from 0.
    """

    sentences: list[tuple[str, ...]]
    labels: list[int]


@dataclass(frozen=True)
class ClassificationTask:
    """A classification task with its splits.

    Attributes:
        name: Name of the task, such as ``MR``.
        train: Training split; all examples if there is no test split.
        dev: Dev split. If None, the regularisation is chosen by cross-validation on the training split.
        test: Test split. If None, the score is that of cross-validation.
    """

    name: str
    train: Split
    dev: Split | None = None
    test: Split | None = None


def load_transfer_tasks(
    data_root: str | Path, names: Sequence[str] = TRANSFER_TASKS
) -> list[ClassificationTask]:
    """Load transfer tasks of a data root.

    Args:
        data_root: Data root.
        names: Names of the tasks.

    Raises:
        DataError: A file is missing or malformed, or a name is unknown.
    """
    check_names(names, TRANSFER_TASKS)
    with fetched_by("transfer", data_root):
        folder = senteval_folder(data_root, ("MR", "CR", "SUBJ", "MPQA", "SST", "TREC", "MRPC"), "transfer")
        return [_load_transfer(folder, name) for name in names]


def load_probing_tasks(
    data_root: str | Path, names: Sequence[str] = tuple(PROBING_TASKS)
) -> list[ClassificationTask]:
    """Load SentEval's linguistic probing tasks from the files ``probing/*.txt`` of a data root.

    Each line is a split (tr, va or te), a class and a sentence, separated by tabs.

    Raises:
        DataError: A file is missing or malformed, or a name is unknown.
    """
    check_names(names, PROBING_TASKS)
    with fetched_by("probing", data_root):
        folder = senteval_folder(data_root, ("probing",), "probing") / "probing"
        return [_load_probing(folder / f"{PROBING_TASKS[name]}.txt", name) for name in names]


def _load_transfer(folder: Path, name: str) -> ClassificationTask:
    if name in BINARY:
        rows: list[tuple[tuple[str, ...], int]] = []
        for label, file in reversed(list(enumerate(BINARY[name]))):
            texts = list(_read_sentences(folder / file))
            check_count(folder / file, folder, len(texts))
            rows += [((text,), label) for text in texts]
        return ClassificationTask(name, _sorted(rows))
    if name == "SST2":
        files = [folder / "SST" / "binary" / f"sentiment-{split}" for split in ("train", "dev", "test")]
        rows_of = [_read_tsv(path, 2, [0], 1) for path in files]
        classes = ["0", "1"]
    elif name == "TREC":
        files = [folder / "TREC" / file for file in ("train_5500.label", "TREC_10.label")]
        rows_of = [_read_trec(path) for path in files]
        classes = ["ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"]
    else:
        files = [folder / "MRPC" / f"msr_paraphrase_{split}.txt" for split in ("train", "test")]
        rows_of = [_read_tsv(path, 5, [3, 4], 0, header="Quality") for path in files]
        classes = ["0", "1"]
    splits = []
    for path, found_rows in zip(files, rows_of, strict=True):
        splits.append(_split(found_rows, classes, path))
        check_count(path, folder, len(splits[-1].labels))
    return ClassificationTask(name, splits[0], splits[1] if len(splits) == 3 else None, splits[-1])


Row = tuple[int, str, tuple[str, ...]]
"""Line number, class and sentences."""


def _split(rows: Iterable[Row], classes: Sequence[str], path: Path) -> Split:
    examples = []
    for line, label, sentences in rows:
        if label not in classes:
            raise DataError(f"the class {label!r} is not one of {', '.join(classes)}.", path, line)
        examples.append((sentences, classes.index(label)))
    if not examples:
        raise DataError("a split has no rows.", path)
    return _sorted(examples)


def _sorted(examples: list[tuple[tuple[str, ...], int]]) -> Split:
    """Sort in SentEval's order, on which its folds depend: by number of words, then by class."""
    examples.sort(key=lambda example: (*(len(text.split()) for text in example[0]), example[1]))
    return Split([sentences for sentences, _ in examples], [label for _, label in examples])


def _read_sentences(path: Path) -> Iterator[str]:
    """Read one sentence a line; an empty line (CR has one) becomes a full stop, as in SentEval."""
    lines = (
        (line, text if text.strip() else ".") for line, text in enumerate(read_lines(path, True), start=1)
    )
    return (text for _, text in parse_rows(path, lines, folded_sentence))


def _read_trec(path: Path) -> Iterator[Row]:
    def parse(text: str) -> tuple[str, tuple[str, ...]]:
        label, _, question = text.partition(" ")
        return label.partition(":")[0], (folded_sentence(question),)

    return ((line, *row) for line, row in parse_rows(path, numbered_lines(path, latin1=True), parse))


def _read_tsv(
    path: Path, columns: int, texts: Sequence[int], label: int, header: str | None = None
) -> Iterator[Row]:
    """Read the class and the sentences of each row, without a header line that begins with this word."""

    def parse(fields: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        return fields[label].strip(), tuple(folded_sentence(fields[column]) for column in texts)

    rows = (row for row in read_tsv(path, columns) if row[0] > 1 or row[1][0] != header)
    return ((line, *row) for line, row in parse_rows(path, rows, parse))


def _load_probing(path: Path, name: str) -> ClassificationTask:
    parts: dict[str, list[Row]] = {"tr": [], "va": [], "te": []}

    def parse(fields: Sequence[str]) -> tuple[str, str, tuple[str, ...]]:
        if fields[0] not in parts:
            raise DataError(f"the split {fields[0]!r} is not one of tr, va, te.")
        return fields[0], fields[1], (folded_sentence(fields[2]),)

    for line, (split, label, sentences) in parse_rows(path, read_tsv(path, columns=3), parse):
        parts[split].append((line, label, sentences))
    classes = sorted({label for _, label, _ in parts["tr"]})
    return ClassificationTask(name, *(_split(rows, classes, path) for rows in parts.values()))
