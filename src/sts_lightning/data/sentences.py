"""Plain sentences for unsupervised training: every view is the same sentence."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Unpack

from sts_lightning.core.errors import DataError
from sts_lightning.data.collate import View
from sts_lightning.data.counts import SENTENCES
from sts_lightning.data.data_set import DataSet, Splits
from sts_lightning.data.dev_and_tests import DevAndTests, DevTestOptions
from sts_lightning.data.files import Files, only_file, read_files, training_files
from sts_lightning.data.readers.row_values import fold, is_blank
from sts_lightning.data.readers.text_files import SUFFIXES, read_lines, suffix_of
from sts_lightning.data.table import SourceCount, Table, check_limit, sentence_columns

[SENTENCE] = sentence_columns(1)

WORD_REPETITION = "sts_lightning.papers.word_repetition:WordRepetition"
"""Class that repeats sub-words (ESimCSE)."""

PAPER_CODE_REPETITION = "sts_lightning.papers.word_repetition:PaperCodeWordRepetition"
"""The same, as in ESimCSE's code."""

PUBLISHED = "wiki1m_for_simcse.txt"
"""Name of the published file."""


def sentences(
    root: str,
    seed: int = 1,
    path: Files | None = None,
    views: int = 2,
    repetition: float = 0.0,
    paper_code_repetition: bool = False,
    limit: int | None = None,
    **options: Unpack[DevTestOptions],
) -> DataSet:
    """Lines of a text file, in order; dropout, templates or repetition make the views of a sentence differ.

    Args:
        root: Data root, from which STS-B dev and the seven test sets are read, too.
        seed: Random seed of the repetitions.
        path: Text file with one sentence a line (empty lines are skipped), or several (see `Files`); if not
            given, the first of ``wiki1m_for_simcse.txt`` and ``unsup/sentences.txt`` under the root.
        views: Number of views of a sentence: 2, 3 with the three templates of CoT-BERT, or 1 for
            `ContrastiveTensionLoss`, whose second encoder embeds the same sentences.
        repetition: Highest fraction of sub-words that are repeated in the second view, 0 for none
            (`papers.word_repetition.WordRepetition`).
        paper_code_repetition: Whether repetitions are drawn as in ESimCSE's code.
        limit: Number of sentences to use, a fixed random sample; all if not given.
        **options: Dev and test pairs, see `DevTestOptions`.

    Raises:
        ValueError: An argument is out of range.
    """
    evaluation = DevAndTests(root, **options)
    check_limit(limit)
    published = only_file(path) in (None, PUBLISHED)

    def read() -> Splits:
        files = training_files(root, path, PUBLISHED, "unsup/sentences.txt", part="wiki")
        table = read_files(files, partial(read_sentences, folded=published))
        return evaluation.complete(table.sample(limit), published)

    repeated = repeated_views(
        views, repetition, seed, PAPER_CODE_REPETITION if paper_code_repetition else WORD_REPETITION
    )
    return DataSet(read, repeated, "none", "sentences", published_rows=SENTENCES if published else None)


def read_sentences(path: Path, name: str, folded: bool) -> Table:
    """Read the sentences of a file, with white space folded only where the file is a published one."""
    if suffix_of(path) in SUFFIXES:
        raise DataError(
            "is a table by its name; a text file with one sentence a line is expected. Write the column "
            "of the sentences to a file of its own, without a header.",
            path,
        )
    lines = read_lines(path)
    texts = [fold(line) if folded else line for line in lines if not is_blank(line)]
    if not texts:
        raise DataError("the file has no sentences.", path)
    count = SourceCount(name, len(lines), {"empty line": len(lines) - len(texts)})
    return Table({SENTENCE: texts}, [count])


def repeated_views(count: int, repetition: float, seed: int, kind: str = WORD_REPETITION) -> tuple[View, ...]:
    """Return views that are all the same sentence, with repeated sub-words in the second one.

    Args:
        count: Number of views, 1 to 3.
        repetition: Highest fraction of sub-words that are repeated, in [0, 1]; 0 for none.
        seed: Random seed of the repetitions.
        kind: Class that draws them.

    Raises:
        ValueError: An argument is out of range; the message names it as the data sets do.
    """
    if count not in (1, 2, 3):
        raise ValueError(f"views must be 1, 2 or 3, got {count}.")
    if not 0 <= repetition <= 1:
        raise ValueError(f"repetition must lie in [0, 1], got {repetition}.")
    if repetition and count < 2:
        raise ValueError("repetition needs a second view; set views=2, or repetition=0.")
    augmentation = resolve_name(kind)(repetition, seed) if repetition else None
    return tuple(View(SENTENCE, change) for change in (None, augmentation, None)[:count])
