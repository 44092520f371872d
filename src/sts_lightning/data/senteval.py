"""The STS data in SentEval's folder layout: seven test tasks, STS-B and SICK-R splits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from datasets import Dataset

from sts_lightning.data.fields import score, sentence
from sts_lightning.data.tables import SCORE_RANGE, make_table, require_varied_scores
from sts_lightning.data.text_files import read_lines, read_tsv
from sts_lightning.errors import DataError

STS_YEARS: dict[str, tuple[str, ...]] = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
"""The subsets of each year; STS13's SMT subset has a licence of its own and is part of no paper's table."""

SEVEN_TASKS = (*STS_YEARS, "STSB", "SICKR")

Pair = tuple[str, str, float]


@dataclass(frozen=True)
class STSTask:
    """A test task: one table of scored pairs for each subset.

    Attributes:
        name: For example ``STS12``.
        subsets: Table (sentence1, sentence2, label in [0, 5]) by subset name.
    """

    name: str
    subsets: dict[str, Dataset]


def senteval_folder(data_root: str | Path) -> Path:
    """The folder ``senteval`` of a data root, or the root itself where it is SentEval's folder.

    Raises:
        DataError: There is neither.
    """
    root = Path(data_root)
    for folder in (root / "senteval", root):
        if (folder / "STS").is_dir():
            return folder
    raise DataError(
        "no STS data here (looked for senteval/STS). Say where it is with data_root=... or the "
        "environment variable STS_DATA_ROOT; data=toy needs none.",
        root,
    )


def load_sts_tasks(data_root: str | Path, names: tuple[str, ...] = SEVEN_TASKS) -> list[STSTask]:
    """The test tasks of a data root, in SentEval's protocol: unscored rows are left out.

    Raises:
        DataError: A file is missing or malformed, or a name is unknown.
    """
    unknown = [name for name in names if name not in SEVEN_TASKS]
    if unknown:
        raise DataError(f"unknown task {', '.join(unknown)}; the tasks are {', '.join(SEVEN_TASKS)}.")
    folder = senteval_folder(data_root)
    tasks = []
    for name in names:
        if name == "STSB":
            subsets = {"test": load_stsb(data_root, "test")}
        elif name == "SICKR":
            subsets = {"test": load_sickr(data_root, "test")}
        else:
            year = folder / "STS" / f"{name}-en-test"
            subsets = {subset: _load_subset(year, subset) for subset in STS_YEARS[name]}
        tasks.append(STSTask(name, subsets))
    return tasks


def load_stsb(data_root: str | Path, split: str) -> Dataset:
    """STS-B ``train`` (5,749 pairs), ``dev`` (1,500) or ``test`` (1,379); scores in [0, 5]."""
    path = senteval_folder(data_root) / "STS" / "STSBenchmark" / f"sts-{split}.csv"
    return _to_table(_read_stsb(path), path)


def load_sickr(data_root: str | Path, split: str) -> Dataset:
    """SICK-R ``train`` (4,500 pairs), ``trial`` (500) or ``test`` (4,927).

    The relatedness r in [1, 5] is mapped to [0, 5] by 5 (r - 1) / 4, as the papers' corpus has it;
    correlations do not change by that.
    """
    name = "SICK_test_annotated.txt" if split == "test" else f"SICK_{split}.txt"
    path = senteval_folder(data_root) / "SICK" / name
    return _to_table(_read_sickr(path), path)


def _to_table(pairs: Iterator[Pair], path: Path) -> Dataset:
    columns = list(zip(*pairs, strict=True)) or [(), (), ()]
    table = make_table(dict(zip(("sentence1", "sentence2", "label"), columns, strict=True)))
    require_varied_scores(table, path)
    return table


def _load_subset(folder: Path, subset: str) -> Dataset:
    inputs, golds = folder / f"STS.input.{subset}.txt", folder / f"STS.gs.{subset}.txt"
    return _to_table(_read_subset(inputs, golds), golds)


def _read_subset(inputs: Path, golds: Path) -> Iterator[Pair]:
    rows, scores = list(read_tsv(inputs, columns=2)), read_lines(golds)
    if len(rows) != len(scores):
        raise DataError(f"{len(scores)} scores for the {len(rows)} pairs of {inputs.name}.", golds)
    for (line, fields), gold in zip(rows, scores, strict=True):
        if gold.strip():
            yield (
                sentence(fields[0], inputs, line),
                sentence(fields[1], inputs, line),
                score(gold, SCORE_RANGE, golds, line),
            )


def _read_stsb(path: Path) -> Iterator[Pair]:
    for line, fields in read_tsv(path, columns=7):
        yield (
            sentence(fields[5], path, line),
            sentence(fields[6], path, line),
            score(fields[4], SCORE_RANGE, path, line),
        )


def _read_sickr(path: Path) -> Iterator[Pair]:
    for line, fields in read_tsv(path, columns=5):
        if line == 1 and fields[0] == "pair_ID":
            continue
        relatedness = score(fields[3], (1.0, 5.0), path, line)
        yield (
            sentence(fields[1], path, line),
            sentence(fields[2], path, line),
            5 * (relatedness - 1) / 4,
        )
