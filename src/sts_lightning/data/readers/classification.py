"""SentEval's classification data: seven transfer tasks, SICK entailment and ten probing tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sts_lightning.choices import SentEvalText, TextFound
from sts_lightning.data.fetch.hints import fetched_by
from sts_lightning.data.readers.moses import is_prepared, prepare
from sts_lightning.data.readers.row_values import folded_sentence
from sts_lightning.data.readers.senteval import check_count, senteval_folder
from sts_lightning.data.readers.text_files import read_lines, read_tsv, strip_blank_end
from sts_lightning.errors import DataError

BINARY = {
    "MR": ("MR/rt-polarity.neg", "MR/rt-polarity.pos"),
    "CR": ("CR/custrev.neg", "CR/custrev.pos"),
    "SUBJ": ("SUBJ/subj.subjective", "SUBJ/subj.objective"),
    "MPQA": ("MPQA/mpqa.neg", "MPQA/mpqa.pos"),
}
"""Files of class 0 and class 1 of the tasks without splits."""

TRANSFER_TASKS = (*BINARY, "SST2", "TREC", "MRPC")
"""The seven tasks whose average is reported."""

ENTAILMENT = "SICKE"

PROBING_TASKS = {
    "Length": "sentence_length",
    "WordContent": "word_content",
    "Depth": "tree_depth",
    "TopConstituents": "top_constituents",
    "BigramShift": "bigram_shift",
    "Tense": "past_present",
    "SubjNumber": "subj_number",
    "ObjNumber": "obj_number",
    "OddManOut": "odd_man_out",
    "CoordinationInversion": "coordination_inversion",
}
"""File of each probing task in the folder ``probing``, without .txt."""


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
        text: Text of the sentences of SICK; None for other tasks.
    """

    name: str
    train: Split
    dev: Split | None = None
    test: Split | None = None
    text: TextFound | None = field(default=None, kw_only=True)


@fetched_by("transfer")
def load_transfer_tasks(
    data_root: str | Path, names: Sequence[str] = TRANSFER_TASKS, text: SentEvalText = "raw"
) -> list[ClassificationTask]:
    """Load transfer tasks of a data root, by default all but SICKE.

    Args:
        data_root: Data root.
        names: Names of the tasks.
        text: Text of SICKE; the other tasks are read as their files are.

    Raises:
        DataError: A file is missing or malformed, or a name is unknown.
    """
    _check_names(names, (*TRANSFER_TASKS, ENTAILMENT))
    folder = senteval_folder(
        data_root, ("MR", "CR", "SUBJ", "MPQA", "SST", "TREC", "MRPC", "SICK"), "transfer"
    )
    return [_load_transfer(folder, name, text) for name in names]


@fetched_by("probing")
def load_probing_tasks(
    data_root: str | Path, names: Sequence[str] = tuple(PROBING_TASKS)
) -> list[ClassificationTask]:
    """Load SentEval's linguistic probing tasks from the files ``probing/*.txt`` of a data root.

    Each line is a split (tr, va or te), a class and a sentence, separated by tabs.

    Raises:
        DataError: A file is missing or malformed, or a name is unknown.
    """
    _check_names(names, PROBING_TASKS)
    folder = senteval_folder(data_root, ("probing",), "probing") / "probing"
    return [_load_probing(folder / f"{PROBING_TASKS[name]}.txt", name) for name in names]


def _check_names(names: Sequence[str], known: Sequence[str] | dict[str, str]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise DataError(f"unknown task {', '.join(unknown)}; the tasks are {', '.join(known)}.", key="tasks")


def _load_transfer(folder: Path, name: str, text: SentEvalText) -> ClassificationTask:
    if name in BINARY:
        rows: list[tuple[tuple[str, ...], int]] = []
        for label, file in reversed(list(enumerate(BINARY[name]))):
            found = list(_read_sentences(folder / file))
            check_count(folder / file, folder, len(found))
            rows += [((text,), label) for text in found]
        return ClassificationTask(name, _sorted(rows))
    if name == "SST2":
        files = [folder / "SST" / "binary" / f"sentiment-{split}" for split in ("train", "dev", "test")]
        return ClassificationTask(
            name, *(_counted(_split(_read_sst(path), ["0", "1"], path), path, folder) for path in files)
        )
    if name == "TREC":
        paths = [folder / "TREC" / file for file in ("train_5500.label", "TREC_10.label")]
        classes = ["ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"]
        train, test = (_counted(_split(_read_trec(path), classes, path), path, folder) for path in paths)
        return ClassificationTask(name, train, test=test)
    if name == ENTAILMENT:
        files = [folder / "SICK" / f"SICK_{part}.txt" for part in ("train", "trial", "test_annotated")]
        classes = ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"]
        splits = [_counted(_split(_read_sick(path), classes, path), path, folder) for path in files]
        return _with_text(name, splits, text)
    paths = [folder / "MRPC" / f"msr_paraphrase_{split}.txt" for split in ("train", "test")]
    train, test = (_counted(_split(_read_mrpc(path), ["0", "1"], path), path, folder) for path in paths)
    return ClassificationTask(name, train, test=test)


def _with_text(name: str, splits: list[Split], text: SentEvalText) -> ClassificationTask:
    """Return SICKE in the text asked for; files that are prepared already keep theirs."""
    if is_prepared([one for split in splits for pair in split.sentences for one in pair], lower=False):
        return ClassificationTask(name, *splits, text="prepared_files")
    if text == "raw":
        return ClassificationTask(name, *splits, text="raw")
    examples = [
        [
            (tuple(prepare(one, lower=False) for one in pair), label)
            for pair, label in zip(split.sentences, split.labels, strict=True)
        ]
        for split in splits
    ]
    return ClassificationTask(name, *map(_sorted, examples), text="prepared")


Row = tuple[int, str, tuple[str, ...]]
"""Line number, class and sentences."""


def _split(rows: Iterator[Row], classes: Sequence[str], path: Path) -> Split:
    found = list(rows)
    if not found:
        raise DataError("the file has a header but no rows.", path)
    for line, label, _ in found:
        if label not in classes:
            raise DataError(f"the class {label!r} is not one of {', '.join(classes)}.", path, line)
    return _sorted([(sentences, classes.index(label)) for _, label, sentences in found])


def _counted(split: Split, path: Path, folder: Path) -> Split:
    """Return a split that has the number of examples of the published file."""
    check_count(path, folder, len(split.labels))
    return split


def _sorted(examples: list[tuple[tuple[str, ...], int]]) -> Split:
    """Sort in SentEval's order, on which its folds depend: by number of words, then by class."""
    examples.sort(key=lambda example: (*(len(text.split()) for text in example[0]), example[1]))
    return Split([sentences for sentences, _ in examples], [label for _, label in examples])


def _read_sentences(path: Path) -> Iterator[str]:
    """Read one sentence a line; an empty line (CR has one) becomes a full stop, as in SentEval."""
    for line, text in enumerate(read_lines(path, latin1=True), start=1):
        yield folded_sentence(text if text.strip() else ".", path, line)


def _read_sst(path: Path) -> Iterator[Row]:
    for line, fields in read_tsv(path, columns=2):
        yield line, fields[1].strip(), (folded_sentence(fields[0], path, line),)


def _read_trec(path: Path) -> Iterator[Row]:
    for line, text in enumerate(strip_blank_end(read_lines(path, latin1=True)), start=1):
        label, _, question = text.partition(" ")
        yield line, label.partition(":")[0], (folded_sentence(question, path, line),)


def _read_mrpc(path: Path) -> Iterator[Row]:
    for line, fields in read_tsv(path, columns=5):
        if line > 1 or fields[0] != "Quality":  # the header
            yield (
                line,
                fields[0],
                (folded_sentence(fields[3], path, line), folded_sentence(fields[4], path, line)),
            )


def _read_sick(path: Path) -> Iterator[Row]:
    for line, fields in read_tsv(path, columns=5):
        if line > 1 or fields[0] != "pair_ID":  # the header
            yield (
                line,
                fields[4].strip(),
                (folded_sentence(fields[1], path, line), folded_sentence(fields[2], path, line)),
            )


def _load_probing(path: Path, name: str) -> ClassificationTask:
    parts: dict[str, list[Row]] = {"tr": [], "va": [], "te": []}
    for line, fields in read_tsv(path, columns=3):
        if fields[0] not in parts:
            raise DataError(f"the split {fields[0]!r} is not one of tr, va, te.", path, line)
        parts[fields[0]].append((line, fields[1], (folded_sentence(fields[2], path, line),)))
    for key, rows in parts.items():
        if not rows:
            raise DataError(f"no line belongs to the split {key}.", path)
    classes = sorted({label for _, label, _ in parts["tr"]})
    return ClassificationTask(name, *(_split(iter(rows), classes, path) for rows in parts.values()))
