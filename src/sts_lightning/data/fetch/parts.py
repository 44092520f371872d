"""Parts of the published data: their files, published counts, and the recipes that need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sts_lightning.data.readers.classification import (
    BINARY,
    PROBING_TASKS,
    TRANSFER_TASKS,
    ClassificationTask,
    load_probing_tasks,
    load_transfer_tasks,
)
from sts_lightning.data.readers.senteval import SCORED_PAIRS, load_sickr, load_sts_tasks, load_stsb
from sts_lightning.data.readers.text_files import read_lines, read_records
from sts_lightning.errors import ConfigError, DataError
from sts_lightning.published import NLI_PAIRS, TRIPLETS

SENTEVAL = "senteval"


@dataclass(frozen=True)
class Part:
    """Files that are fetched, checked and installed together.

    Attributes:
        name: Argument of ``sts-lightning data get``.
        sources: Names in the table of sources.
        files: Paths below the data root.
        published: Published number of rows, by name.
        count: Function that reads the files of a data root and returns the rows by name.
        instead: Files that the same recipes also read, in the absence of the published one.
        at_least: Whether a published number is a lower bound.
    """

    name: str
    sources: tuple[str, ...]
    files: tuple[str, ...]
    published: dict[str, int]
    count: Callable[[Path], dict[str, int]]
    instead: tuple[str, ...] = ()
    at_least: bool = False

    def differences(self, counts: dict[str, int], dropped: int = 0) -> list[str]:
        """Return each count that differs from the published one, as text.

        Args:
            counts: Rows by name.
            dropped: Rows of the source that were left out because no reader takes them.
        """
        return [
            f"{name}: {counts.get(name, 0):,}, published {'at least ' * self.at_least}{wanted:,}"
            for name, wanted in self.published.items()
            if not self._is_published(counts.get(name, 0) + dropped, wanted)
        ]

    def _is_published(self, found: int, wanted: int) -> bool:
        return found >= wanted if self.at_least else found == wanted


def place(root: Path, name: str) -> Path:
    """Return the path of a part's file, in a data root or in one that is SentEval's folder itself."""
    if not (root / SENTEVAL).is_dir() and (root / "STS").is_dir():
        name = name.removeprefix(f"{SENTEVAL}/")
    return root / name


def _sts_counts(root: Path) -> dict[str, int]:
    counts = {task.name: sum(map(len, task.subsets.values())) for task in load_sts_tasks(root)}
    counts["STSB train"], counts["STSB dev"] = (len(load_stsb(root, split)) for split in ("train", "dev"))
    counts["SICKR train"], counts["SICKR trial"] = (
        len(load_sickr(root, split)) for split in ("train", "trial")
    )
    return counts


def _published_sts() -> dict[str, int]:
    years = {
        f"STS{year}": sum(count for file, count in SCORED_PAIRS.items() if f"/STS{year}-" in file)
        for year in range(12, 17)
    }
    rest = {"STSB": "STS/STSBenchmark/sts-test.csv", "SICKR": "SICK/SICK_test_annotated.txt"}
    rest |= {f"STSB {split}": f"STS/STSBenchmark/sts-{split}.csv" for split in ("train", "dev")}
    rest |= {f"SICKR {split}": f"SICK/SICK_{split}.txt" for split in ("train", "trial")}
    return years | {name: SCORED_PAIRS[file] for name, file in rest.items()}


def _sts_files() -> tuple[str, ...]:
    inputs = [file.replace("STS.gs.", "STS.input.") for file in SCORED_PAIRS if "STS.gs." in file]
    return tuple(f"{SENTEVAL}/{file}" for file in (*SCORED_PAIRS, *inputs))


def _by_split(tasks: Sequence[ClassificationTask]) -> dict[str, int]:
    return {
        f"{task.name} {name}": len(split.labels)
        for task in tasks
        for name, split in (("train", task.train), ("dev", task.dev), ("test", task.test))
        if split is not None
    }


def _records(name: str, columns: list[str]) -> Callable[[Path], dict[str, int]]:
    return lambda root: {"rows": sum(1 for _ in read_records(place(root, name), columns))}


TRANSFER_FILES = (
    *(file for files in BINARY.values() for file in files),
    *(f"SST/binary/sentiment-{split}" for split in ("train", "dev", "test")),
    *("TREC/train_5500.label", "TREC/TREC_10.label"),
    *(f"MRPC/msr_paraphrase_{split}.txt" for split in ("train", "test")),
)

TRANSFER_COUNTS = {
    "MR train": 10_662,
    "CR train": 3_775,
    "SUBJ train": 10_000,
    "MPQA train": 10_606,
    "SST2 train": 67_349,
    "SST2 dev": 872,
    "SST2 test": 1_821,
    "TREC train": 5_452,
    "TREC test": 500,
    "MRPC train": 4_076,
    "MRPC test": 1_725,
}

PARTS = {
    part.name: part
    for part in (
        Part("sts", ("sts",), _sts_files(), _published_sts(), _sts_counts),
        Part(
            "triplets",
            ("triplets",),
            ("nli_for_simcse.csv",),
            {"rows": TRIPLETS},
            _records("nli_for_simcse.csv", ["sent0", "sent1", "hard_neg"]),
            instead=("nli/nli_triplets.csv",),
        ),
        Part(
            "pairs",
            ("snli", "multinli"),
            ("nli/nli_pairs.tsv",),
            {"rows": NLI_PAIRS},
            _records("nli/nli_pairs.tsv", ["premise", "hypothesis", "label"]),
        ),
        Part(
            "wiki",
            ("wiki",),
            ("wiki1m_for_simcse.txt",),
            {"rows": 1_000_000},
            lambda root: {"rows": len(read_lines(place(root, "wiki1m_for_simcse.txt")))},
            instead=("unsup/sentences.txt",),
        ),
        Part(
            "transfer",
            ("transfer",),
            tuple(f"{SENTEVAL}/{file}" for file in TRANSFER_FILES),
            TRANSFER_COUNTS,
            lambda root: _by_split(load_transfer_tasks(root, TRANSFER_TASKS)),
        ),
        Part(
            "probing",
            ("probing",),
            tuple(f"{SENTEVAL}/probing/{file}.txt" for file in PROBING_TASKS.values()),
            {
                f"{task} {split}": count
                for task in PROBING_TASKS
                for split, count in (("train", 100_000), ("dev", 10_000), ("test", 10_000))
            },
            lambda root: _by_split(load_probing_tasks(root)),
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
"""Parts of each argument of ``sts-lightning data get``; the name of a part is one, too."""

NEEDS = {
    "data=sts": ("sts",),
    "data=nli_triplets": ("sts", "triplets"),
    "data=nli_pairs": ("sts", "pairs"),
    "data=sentences": ("sts", "wiki"),
    "data=triplets_file": ("sts",),
    "data=classes_file": ("sts",),
    "data=sentences_file": ("sts",),
    "dev=suite": ("sts", "pairs", "transfer"),
    "suite=sts": ("sts",),
    "suite=rank": ("sts",),
    "suite=transfer": ("transfer",),
    "suite=probing": ("probing",),
}
"""Parts that a choice of train.py or eval.py reads; training data come with STS-B dev and the test sets.

Files of one's own read them unless ``data.dev_path`` is given.
"""


def parts_of(names: Sequence[str]) -> list[Part]:
    """Return the parts of sets or parts, each once, in the order of `PARTS`.

    Raises:
        ConfigError: A name is neither a set nor a part.
    """
    known = {**{name: (name,) for name in PARTS}, **SETS}
    for name in names:
        if name not in known:
            raise ConfigError(f"unknown data {name!r}; choose from {', '.join(known)}.", key="data get")
    wanted = {part for name in names for part in known[name]}
    return [part for name, part in PARTS.items() if name in wanted]


def try_count(part: Part, root: Path) -> dict[str, int] | str:
    """Count the rows of a part; return the message if a file is missing or malformed."""
    try:
        return part.count(root)
    except DataError as error:
        return str(error)
