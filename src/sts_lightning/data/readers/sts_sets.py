"""STS data in SentEval's folder layout: the seven test tasks, and the splits of STS-B and SICK-R."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import get_args

from sts_lightning.core.choices import SentEvalText, TextFound
from sts_lightning.core.errors import DataError
from sts_lightning.core.files import read_json
from sts_lightning.data.fetch import PUBLISHED, ROWS, fetch_hint, fetched_by
from sts_lightning.data.readers.lines import read_lines, read_tsv
from sts_lightning.data.readers.row_values import folded_sentence, parse_rows, score
from sts_lightning.data.table import LABELLED, SCORE_RANGE, Table, require_varied_scores

STS_YEARS: dict[str, tuple[str, ...]] = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
"""Subsets of each year. STS13's SMT subset has a separate licence and is in no paper's table."""

SEVEN_TASKS = (*STS_YEARS, "STSB", "SICKR")

COUNTS = "counts.json"
"""File with the number of rows of each published file, which detects files truncated at the end of a line.

It maps the name of a file to the number of its examples, or scored pairs. One of this name next to the
folders STS and SICK takes the place of that of this package, for custom data in this layout. Files that
are not listed are not checked, so ``{}`` is enough.
"""

Pair = tuple[str, str, float]


@dataclass(frozen=True)
class STSTask:
    """A test task with one table of scored pairs per subset.

    Attributes:
        name: Name of the task, such as ``STS12``.
        subsets: Tables (sentence1, sentence2, label in [0, 5]) by subset name.
    """

    name: str
    subsets: dict[str, Table]


def tables_of(tasks: Iterable[STSTask]) -> list[Table]:
    """Return the tables of tasks, one after another."""
    return [table for task in tasks for table in task.subsets.values()]


def senteval_folder(data_root: str | Path, contents: Sequence[str] = ("STS",), part: str = "sts") -> Path:
    """Return the folder ``senteval`` of a data root, or the root itself if it is SentEval's folder.

    Args:
        data_root: Data root.
        contents: Folders of which the folder has at least one.
        part: Argument of ``sts-lightning data get`` that fetches them.

    Raises:
        DataError: Neither exists.
    """
    root = Path(data_root)
    for folder in (root / "senteval", root):
        if any((folder / name).is_dir() for name in contents):
            return folder
    raise DataError(
        f"no {contents[0]} data here (looked for senteval/{contents[0]}). {fetch_hint(part, data_root)}",
        root,
        hint="Or set data_root=... or the environment variable STS_DATA_ROOT; data=toy needs no files.",
    )


def check_names(names: Iterable[str], known: Iterable[str]) -> None:
    """Reject unknown names of tasks by a `DataError`."""
    unknown = [name for name in names if name not in known]
    if unknown:
        raise DataError(f"unknown task {', '.join(unknown)}; the tasks are {', '.join(known)}.", key="tasks")


def load_sts_tasks(
    data_root: str | Path, names: tuple[str, ...] = SEVEN_TASKS, text: SentEvalText = "raw"
) -> list[STSTask]:
    """Load the test tasks of a data root in SentEval's protocol, without unscored rows.

    Args:
        data_root: Data root.
        names: Names of the tasks.
        text: Text of the sentences; files that are prepared already are read as they are.

    Raises:
        DataError: A file is missing or malformed, or a name is unknown.
    """
    check_names(names, SEVEN_TASKS)
    with fetched_by("sts", data_root):
        folder = senteval_folder(data_root)
        tasks = []
        for name in names:
            if name == "STSB":
                subsets = {"test": load_stsb(data_root, "test", text)}
            elif name == "SICKR":
                subsets = {"test": load_sickr(data_root, "test", text)}
            else:
                year = f"{name}-en-test"
                subsets = {subset: _load_subset(folder, year, subset, text) for subset in STS_YEARS[name]}
            tasks.append(STSTask(name, subsets))
        return tasks


def load_stsb(data_root: str | Path, split: str, text: SentEvalText = "raw") -> Table:
    """Load STS-B ``train`` (5,749 pairs), ``dev`` (1,500) or ``test`` (1,379); scores in [0, 5].

    Args:
        data_root: Data root.
        split: One of the three.
        text: Text of the sentences; a file that is prepared already is read as it is.

    Raises:
        DataError: The file is missing, malformed, or has an unexpected number of pairs.
    """
    with fetched_by("sts", data_root):
        folder = senteval_folder(data_root)
        path = folder / "STS" / "STSBenchmark" / f"sts-{split}.csv"
        return _to_table(_read_stsb(path), path, folder, text)


def load_sickr(data_root: str | Path, split: str, text: SentEvalText = "raw") -> Table:
    """Load SICK-R ``train`` (4,500 pairs), ``trial`` (500) or ``test`` (4,927).

    The relatedness r in [1, 5] is mapped to [0, 5] by 5 (r - 1) / 4, as in the papers' corpus; this does
    not change correlations.

    Args:
        data_root: Data root.
        split: One of the three.
        text: Text of the sentences; a file that is prepared already is read as it is.

    Raises:
        DataError: The file is missing, malformed, or has an unexpected number of pairs.
    """
    with fetched_by("sts", data_root):
        folder = senteval_folder(data_root)
        name = "SICK_test_annotated.txt" if split == "test" else f"SICK_{split}.txt"
        path = folder / "SICK" / name
        return _to_table(_read_sickr(path), path, folder, text, lower=False)


def check_count(path: Path, folder: Path, count: int) -> None:
    """Check the number of rows of a file against the published one, or against `COUNTS` if it exists.

    Args:
        path: File that was read.
        folder: Folder that holds STS and SICK.
        count: Number of rows that were read.

    Raises:
        DataError: The numbers differ, or the file `COUNTS` is malformed.
    """
    name, custom, counts = path.relative_to(folder).as_posix(), folder / COUNTS, PUBLISHED
    if custom.is_file():
        try:
            counts = read_json(custom, dict[str, int])
        except (OSError, ValueError) as error:
            raise DataError(
                f'expected a JSON object from file names to integers, such as {{"...": 60}} ({error}).',
                custom,
            ) from error
    wanted = counts.get(name, count)
    if wanted != count:
        what = "rows" if name in ROWS else "rows with a score"
        raise DataError(
            f"{count:,} {what}, but the published file has {wanted:,}: truncated or modified. "
            f"Copy it again; for your own data in this layout, write {{}} to {custom}.",
            path,
        )


def text_found(tables: Iterable[Table]) -> TextFound | None:
    """Return the first of raw, prepared and prepared files that tables read from SentEval's files have."""
    texts = {table.text for table in tables}
    return next((text for text in get_args(TextFound) if text in texts), None)


def _to_table(
    pairs: Iterator[Pair], path: Path, folder: Path, text: SentEvalText, lower: bool = True
) -> Table:
    columns: list[tuple[str, ...]] = list(zip(*pairs, strict=True)) or [(), (), ()]
    firsts, seconds, labels = map(list, columns)
    source_text: TextFound = "prepared_files" if is_prepared((*firsts, *seconds), lower) else "raw"
    if text == "prepared" and source_text == "raw":
        prepare = resolve_name("sts_lightning.papers.moses:prepare")
        firsts, seconds = ([prepare(sentence, lower) for sentence in column] for column in (firsts, seconds))
        source_text = "prepared"
    table = Table(dict(zip(LABELLED, (firsts, seconds, labels), strict=True)), text=source_text)
    check_count(path, folder, len(table))
    require_varied_scores(table, path)
    return table


_MARK = r"[!\"#$%&()*+/:;<=>?@\[\]^{|}~]"
_GLUED = re.compile(
    rf"[^\W_]{_MARK}|{_MARK}[^\W_]"  # a letter or digit next to a mark that is always a token
    r"|[^\W\d_],"  # a comma after a letter
    r"|(?:^|\s)[^\W\d_]{2,}'[^\W\d_]"  # a contraction in one piece
    r"|[^\W\d_]{7,}\.$"  # a final period at a word longer than any abbreviation
)
_DETACHED = re.compile(r"\s[^\w\s]")


def is_prepared(sentences: Collection[str], lower: bool = True) -> bool:
    """Return whether the sentences of a file are prepared already.

    They are if punctuation stands apart from words in all of them, at least one has punctuation, and, of
    lower-cased files, none has a capital.

    Args:
        sentences: All sentences of the file.
        lower: Whether prepared sentences are lower-case; False for SICK.
    """
    if lower and any(text != text.lower() for text in sentences):
        return False
    return any(map(_DETACHED.search, sentences)) and not any(map(_GLUED.search, sentences))


def _load_subset(folder: Path, year: str, subset: str, text: SentEvalText) -> Table:
    inputs, golds = (folder / "STS" / year / f"STS.{part}.{subset}.txt" for part in ("input", "gs"))
    return _to_table(_read_subset(inputs, golds), golds, folder, text)


def _read_subset(inputs: Path, golds: Path) -> Iterator[Pair]:
    rows, scores = list(read_tsv(inputs, columns=2)), read_lines(golds)
    # An empty line means an unscored pair, except after the last pair.
    while len(scores) > len(rows) and not scores[-1].strip():
        scores.pop()
    if len(rows) != len(scores):
        raise DataError(f"{len(scores)} scores for the {len(rows)} pairs of {inputs.name}.", golds)
    numbers = [line for line, _ in rows]
    scored = [number for number, gold in enumerate(scores) if gold.strip()]
    texts = parse_rows(inputs, (rows[number] for number in scored), _two_sentences)
    found = ((numbers[number], scores[number]) for number in scored)
    for (_, pair), (_, gold) in zip(texts, parse_rows(golds, found, _usual_score), strict=True):
        yield *pair, gold


def _two_sentences(fields: Sequence[str]) -> tuple[str, str]:
    return folded_sentence(fields[0]), folded_sentence(fields[1])


def _usual_score(text: str) -> float:
    return score(text, SCORE_RANGE)


def _read_stsb(path: Path) -> Iterator[Pair]:
    def parse(fields: Sequence[str]) -> Pair:
        return *_two_sentences(fields[5:]), score(fields[4], SCORE_RANGE)

    return (pair for _, pair in parse_rows(path, read_tsv(path, 7), parse))


def _read_sickr(path: Path) -> Iterator[Pair]:
    def parse(fields: Sequence[str]) -> Pair:
        return *_two_sentences(fields[1:]), 5 * (score(fields[3], (1.0, 5.0)) - 1) / 4

    header, *rows = read_tsv(path, 5)
    rows = rows if header[1][0] == "pair_ID" else [header, *rows]
    return (pair for _, pair in parse_rows(path, rows, parse))
