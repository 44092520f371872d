"""Parts of the published data: their files, and published numbers of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name

from sts_lightning.core.errors import ConfigError
from sts_lightning.data.counts import NLI_PAIRS, SENTENCES, TRIPLETS
from sts_lightning.data.readers.row_values import BadRows
from sts_lightning.data.readers.sts_sets import (
    ROWS,
    SCORED_PAIRS,
    load_sickr,
    load_sts_tasks,
    load_stsb,
    tables_of,
)
from sts_lightning.data.readers.text_files import read_lines, read_records

SENTEVAL = "senteval"

CLASSIFICATION = "sts_lightning.papers.classification"
"""Module that reads SentEval's classification data."""

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
class Part:
    """Files that are fetched, checked and installed together.

    Attributes:
        name: Argument of ``sts-lightning data get``.
        sources: Names in the table of sources.
        files: Paths below the data root.
        published: Published number of rows.
        count: Function that reads the files of a data root and returns their number of rows.
        instead: Files that the same recipes read where the published one is absent.
        at_least: Whether the published number is a lower bound.
    """

    name: str
    sources: tuple[str, ...]
    files: tuple[str, ...]
    published: int
    count: Callable[[Path], int]
    instead: tuple[str, ...] = ()
    at_least: bool = False

    def difference(self, rows: int, dropped: int = 0) -> str:
        """Return how a number of rows differs from the published one; empty if it does not.

        Args:
            rows: Number of rows.
            dropped: Number of rows of the source that were dropped, as their text is empty.
        """
        total = rows + dropped
        if total == self.published or (self.at_least and total > self.published):
            return ""
        return f"rows: {rows:,}, published {'at least ' * self.at_least}{self.published:,}"


def data_path(root: Path, name: str) -> Path:
    """Return the path of a part's file below a data root, which may be SentEval's folder itself."""
    if not (root / SENTEVAL).is_dir() and (root / "STS").is_dir():
        name = name.removeprefix(f"{SENTEVAL}/")
    return root / name


def _count_sts(root: Path) -> int:
    tables = tables_of(load_sts_tasks(root))
    tables += [load_stsb(root, split) for split in ("train", "dev")]
    tables += [load_sickr(root, split) for split in ("train", "trial")]
    return sum(map(len, tables))


def _sts_files() -> tuple[str, ...]:
    inputs = [file.replace("STS.gs.", "STS.input.") for file in SCORED_PAIRS if "STS.gs." in file]
    return tuple(f"{SENTEVAL}/{file}" for file in (*SCORED_PAIRS, *inputs))


def _count_records(name: str, columns: list[str]) -> Callable[[Path], int]:
    return lambda root: sum(1 for _ in read_records(data_path(root, name), columns, bad=BadRows()))


PARTS = {
    part.name: part
    for part in (
        Part("sts", ("sts",), _sts_files(), sum(SCORED_PAIRS.values()), _count_sts),
        Part(
            "triplets",
            ("triplets",),
            ("nli_for_simcse.csv",),
            TRIPLETS,
            _count_records("nli_for_simcse.csv", ["sent0", "sent1", "hard_neg"]),
            instead=("nli/nli_triplets.csv",),
        ),
        Part(
            "pairs",
            ("snli", "multinli"),
            ("nli/nli_pairs.tsv",),
            NLI_PAIRS,
            _count_records("nli/nli_pairs.tsv", ["premise", "hypothesis", "label"]),
        ),
        Part(
            "wiki",
            ("wiki",),
            ("wiki1m_for_simcse.txt",),
            SENTENCES,
            lambda root: len(read_lines(data_path(root, "wiki1m_for_simcse.txt"))),
            instead=("unsup/sentences.txt",),
        ),
        Part(
            "transfer",
            ("transfer",),
            tuple(f"{SENTEVAL}/{file}" for file in ROWS),
            sum(ROWS.values()),
            lambda root: resolve_name(f"{CLASSIFICATION}:count_transfer")(root),
        ),
        Part(
            "probing",
            ("probing",),
            tuple(f"{SENTEVAL}/probing/{file}.txt" for file in PROBING_TASKS.values()),
            120_000 * len(PROBING_TASKS),
            lambda root: resolve_name(f"{CLASSIFICATION}:count_probing")(root),
            at_least=True,
        ),
    )
}

SETS = {
    "sts": ("sts",),
    "nli": ("triplets", "pairs"),
    "wiki": ("wiki",),
    "transfer": ("transfer", "probing"),
    "all": tuple(PARTS),
}
"""Parts of each argument of ``sts-lightning data get``, which may also be the name of a part."""


def select_parts(names: Sequence[str]) -> list[Part]:
    """Return the parts of these names, of sets or parts, each once, in the order of `PARTS`.

    Raises:
        ConfigError: A name is neither a set nor a part.
    """
    known = {**{name: (name,) for name in PARTS}, **SETS}
    for name in names:
        if name not in known:
            raise ConfigError(f"unknown data {name!r}; choose from {', '.join(known)}.", key="data get")
    selected = {part for name in names for part in known[name]}
    return [part for name, part in PARTS.items() if name in selected]
