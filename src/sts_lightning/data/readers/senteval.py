"""The STS data in SentEval's folder layout: seven test tasks, STS-B and SICK-R splits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import Dataset

from sts_lightning.data.pair_tables import SCORE_RANGE, make_table, require_varied_scores
from sts_lightning.data.readers.row_values import score, sentence
from sts_lightning.data.readers.text_files import read_lines, read_tsv
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

SCORED_PAIRS = {
    "STS/STS12-en-test/STS.gs.MSRpar.txt": 750,
    "STS/STS12-en-test/STS.gs.MSRvid.txt": 750,
    "STS/STS12-en-test/STS.gs.SMTeuroparl.txt": 459,
    "STS/STS12-en-test/STS.gs.surprise.OnWN.txt": 750,
    "STS/STS12-en-test/STS.gs.surprise.SMTnews.txt": 399,
    "STS/STS13-en-test/STS.gs.FNWN.txt": 189,
    "STS/STS13-en-test/STS.gs.headlines.txt": 750,
    "STS/STS13-en-test/STS.gs.OnWN.txt": 561,
    "STS/STS14-en-test/STS.gs.deft-forum.txt": 450,
    "STS/STS14-en-test/STS.gs.deft-news.txt": 300,
    "STS/STS14-en-test/STS.gs.headlines.txt": 750,
    "STS/STS14-en-test/STS.gs.images.txt": 750,
    "STS/STS14-en-test/STS.gs.OnWN.txt": 750,
    "STS/STS14-en-test/STS.gs.tweet-news.txt": 750,
    "STS/STS15-en-test/STS.gs.answers-forums.txt": 375,
    "STS/STS15-en-test/STS.gs.answers-students.txt": 750,
    "STS/STS15-en-test/STS.gs.belief.txt": 375,
    "STS/STS15-en-test/STS.gs.headlines.txt": 750,
    "STS/STS15-en-test/STS.gs.images.txt": 750,
    "STS/STS16-en-test/STS.gs.answer-answer.txt": 254,
    "STS/STS16-en-test/STS.gs.headlines.txt": 249,
    "STS/STS16-en-test/STS.gs.plagiarism.txt": 230,
    "STS/STS16-en-test/STS.gs.postediting.txt": 244,
    "STS/STS16-en-test/STS.gs.question-question.txt": 209,
    "STS/STSBenchmark/sts-train.csv": 5749,
    "STS/STSBenchmark/sts-dev.csv": 1500,
    "STS/STSBenchmark/sts-test.csv": 1379,
    "SICK/SICK_train.txt": 4500,
    "SICK/SICK_trial.txt": 500,
    "SICK/SICK_test_annotated.txt": 4927,
}
"""Scored pairs of each published file, by which a file that was cut at the end of a line is known."""

COUNTS = "counts.json"
"""A file beside the folders STS and SICK that takes precedence over `SCORED_PAIRS`, for data of one's own in
this layout: an object of file names and their numbers of scored pairs. Files that it leaves out are not
checked, so ``{}`` is enough."""

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
            year = f"{name}-en-test"
            subsets = {subset: _load_subset(folder, year, subset) for subset in STS_YEARS[name]}
        tasks.append(STSTask(name, subsets))
    return tasks


def load_stsb(data_root: str | Path, split: str) -> Dataset:
    """STS-B ``train`` (5,749 pairs), ``dev`` (1,500) or ``test`` (1,379); scores in [0, 5].

    Raises:
        DataError: The file is missing, malformed, or has another number of pairs.
    """
    folder = senteval_folder(data_root)
    path = folder / "STS" / "STSBenchmark" / f"sts-{split}.csv"
    return _to_table(_read_stsb(path), path, folder)


def load_sickr(data_root: str | Path, split: str) -> Dataset:
    """SICK-R ``train`` (4,500 pairs), ``trial`` (500) or ``test`` (4,927).

    The relatedness r in [1, 5] is mapped to [0, 5] by 5 (r - 1) / 4, as the papers' corpus has it;
    correlations do not change by that.

    Raises:
        DataError: The file is missing, malformed, or has another number of pairs.
    """
    folder = senteval_folder(data_root)
    name = "SICK_test_annotated.txt" if split == "test" else f"SICK_{split}.txt"
    path = folder / "SICK" / name
    return _to_table(_read_sickr(path), path, folder)


def check_count(path: Path, folder: Path, found: int) -> None:
    """Reject a file that has another number of rows than the published one, or than `COUNTS` says.

    Args:
        path: The file.
        folder: The folder that holds STS and SICK.
        found: Rows that were read.

    Raises:
        DataError: The numbers differ, or the file `COUNTS` is malformed.
    """
    expected = _own_counts(folder / COUNTS) if (folder / COUNTS).is_file() else SCORED_PAIRS
    wanted = expected.get(path.relative_to(folder).as_posix(), found)
    if wanted != found:
        raise DataError(
            f"{found:,} rows with a score, but the published file has {wanted:,}: it was cut or changed. "
            f"Copy it anew; for data of your own in this layout, write {{}} to {folder / COUNTS}.",
            path,
        )


def _own_counts(path: Path) -> dict[str, int]:
    try:
        counts: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be read ({error}).", path) from error
    if not isinstance(counts, dict) or any(type(count) is not int for count in counts.values()):
        raise DataError('expected an object of file names and whole numbers, such as {"...": 60}.', path)
    return counts


def _to_table(pairs: Iterator[Pair], path: Path, folder: Path) -> Dataset:
    columns = list(zip(*pairs, strict=True)) or [(), (), ()]
    table = make_table(dict(zip(("sentence1", "sentence2", "label"), columns, strict=True)))
    check_count(path, folder, len(table))
    require_varied_scores(table, path)
    return table


def _load_subset(folder: Path, year: str, subset: str) -> Dataset:
    inputs, golds = (folder / "STS" / year / f"STS.{kind}.{subset}.txt" for kind in ("input", "gs"))
    return _to_table(_read_subset(inputs, golds), golds, folder)


def _read_subset(inputs: Path, golds: Path) -> Iterator[Pair]:
    rows, scores = list(read_tsv(inputs, columns=2)), read_lines(golds)
    # An empty line is the score of an unscored pair, but beyond the last pair it is none.
    while len(scores) > len(rows) and not scores[-1].strip():
        scores.pop()
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
