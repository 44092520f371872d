"""The published data: where it comes from, which of it is here, and `sts-lightning data get`.

The hub's client downloads, resumes and caches. What arrives is converted in a folder beside the data and
counted there; only then are files renamed into their places, so that no file there is ever half of one.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import tarfile
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal
from urllib.request import urlopen

import yaml

from sts_lightning.core.errors import ConfigError, DataError, FetchError, counted
from sts_lightning.core.files import locked_file, read_json
from sts_lightning.data.counts import NLI_PAIRS, SENTENCES, TRIPLETS

log = logging.getLogger(__name__)

SENTEVAL = "senteval"

PUBLISHED: dict[str, int] = read_json(Path(__file__).with_name("counts.json"))
"""Number of rows of each file of SentEval: scored pairs, or examples of the transfer tasks."""

SCORED_PAIRS = {name: count for name, count in PUBLISHED.items() if name.startswith(("STS/", "SICK/"))}
"""Number of scored pairs of each file of STS12-16, STS-B and SICK."""

ROWS = {name: count for name, count in PUBLISHED.items() if name not in SCORED_PAIRS}
"""Number of examples of each file of the transfer tasks."""

INPUTS = [name.replace("STS.gs.", "STS.input.") for name in SCORED_PAIRS if "STS.gs." in name]
"""Files of sentences beside the files of scores; they have unscored pairs, too, and are not counted."""

HEADERS = (b"pair_ID\t", b"Quality\t", b"sent0,", b"premise\t")
"""Starts of the header lines: of SICK, MRPC, the triplets and the pairs. The other files have none."""


@dataclass(frozen=True)
class Download:
    """Files that are fetched and installed together.

    Attributes:
        name: Argument of ``sts-lightning data get``.
        sources: Names in `sources.yaml`.
        files: Published number of rows of each file, by path below the data root; None if it is not counted.
        instead: Files that the same recipes read where the published one is absent.
        fewer: How many rows a file may lack, since pairs with an empty text are left out.
        more: How many rows a file may have beyond the published ones, which are a lower bound.
    """

    name: str
    sources: tuple[str, ...]
    files: Mapping[str, int | None]
    instead: tuple[str, ...] = ()
    fewer: int = 0
    more: int = 0

    @property
    def published(self) -> int:
        """Published number of rows."""
        return sum(rows or 0 for rows in self.files.values())


def _senteval(rows: Mapping[str, int | None]) -> dict[str, int | None]:
    return {f"{SENTEVAL}/{name}": count for name, count in rows.items()}


TRIPLETS_FILE, PAIRS_FILE, WIKI_FILE = "nli_for_simcse.csv", "nli/nli_pairs.tsv", "wiki1m_for_simcse.txt"

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
"""File of each probing task in the folder ``probing``, without .txt; each has at least 120,000 sentences."""

PROBING = _senteval({f"probing/{name}.txt": 120_000 for name in PROBING_TASKS.values()})

DOWNLOADS = {
    each.name: each
    for each in (
        Download("sts", ("sts",), _senteval({**SCORED_PAIRS, **dict.fromkeys(INPUTS)})),
        Download("triplets", ("triplets",), {TRIPLETS_FILE: TRIPLETS}, instead=("nli/nli_triplets.csv",)),
        Download("pairs", ("snli", "multinli"), {PAIRS_FILE: NLI_PAIRS}, fewer=100),
        Download("wiki", ("wiki",), {WIKI_FILE: SENTENCES}, instead=("unsup/sentences.txt",)),
        Download("transfer", ("transfer",), _senteval({**ROWS})),
        Download("probing", ("probing",), PROBING, more=120_000),
    )
}

SETS = {"nli": ("triplets", "pairs"), "transfer": ("transfer", "probing"), "all": tuple(DOWNLOADS)}
"""Downloads of each argument of ``sts-lightning data get`` that is the name of several."""


def select(names: Sequence[str]) -> list[Download]:
    """Return the downloads of these names, each once, in the order of `DOWNLOADS`.

    Raises:
        ConfigError: A name is neither that of a download nor of several.
    """
    known = {**{name: (name,) for name in DOWNLOADS}, **SETS}
    for name in names:
        if name not in known:
            raise ConfigError(f"unknown data {name!r}; choose from {', '.join(known)}.", key="data get")
    selected = {each for name in names for each in known[name]}
    return [download for name, download in DOWNLOADS.items() if name in selected]


def default_root() -> str:
    """Return the default data root: STS_DATA_ROOT, or ``data``."""
    return os.environ.get("STS_DATA_ROOT", "data")


def fetch_hint(name: str, root: str | Path) -> str:
    """Return the sentence that says how to fetch a download into a data root."""
    option = "" if str(root) == default_root() else f" --root {root}"
    return f"`sts-lightning data get {name}{option}` fetches it."


@contextlib.contextmanager
def fetched_by(name: str, root: str | Path) -> Iterator[None]:
    """Name the command that fetches a download in errors on missing files."""
    try:
        yield
    except DataError as error:
        if error.hint is None and error.path is not None and not Path(error.path).exists():
            error.add_hint(fetch_hint(name, root))
        raise


State = Literal["complete", "missing", "incomplete", "other data"]
"""``other data``: files that the recipes read, but with other counts than published."""


@dataclass(frozen=True)
class Stock:
    """What a data root has of a download.

    Attributes:
        state: Whether it is complete.
        rows: Number of rows of its files; None where other files are read instead.
        note: Difference from the published data; empty if there is none.
        other: Path of a file that is not the published one, if there is one.
    """

    state: State
    rows: int | None = 0
    note: str = ""
    other: Path | None = None


def data_path(root: Path, name: str) -> Path:
    """Return the path of a published file below a data root, which may be SentEval's folder itself."""
    if not (root / SENTEVAL).is_dir() and (root / "STS").is_dir():
        name = name.removeprefix(f"{SENTEVAL}/")
    return root / name


def take_stock(of: Download, root: Path) -> Stock:
    """Count the rows of a download in a data root."""
    present = [name for name in of.files if data_path(root, name).is_file()]
    if not present:
        found = next((name for name in of.instead if (root / name).is_file()), None)
        return Stock("missing") if found is None else Stock("other data", None, f"{found} is read instead")
    total = 0
    for name in present:
        path, published = data_path(root, name), of.files[name]
        if published is None:
            continue
        rows = _count_rows(path)
        if not published - of.fewer <= rows <= published + of.more:
            at_least = "at least " if of.more else ""
            note = f"{name} has {rows:,} rows, published {at_least}{published:,}"
            return Stock("other data", rows, note, path)
        total += rows
    if len(present) < len(of.files):
        absent = next(name for name in of.files if name not in present)
        return Stock("incomplete", total, f"{len(present)} of {len(of.files)} files; {absent} is missing")
    return Stock("complete", total)


def _count_rows(path: Path) -> int:
    """Return the number of lines of a file without its header; blank ones are unscored pairs."""
    every = path.parent.name in ("MR", "CR", "SUBJ", "MPQA")  # there, SentEval reads them as a full stop
    with path.open("rb") as stream:
        first = stream.readline().removeprefix(BOM_UTF8)
        count = sum(1 for line in chain([first], stream) if every or line.strip())
        return count - first.startswith(HEADERS)


@dataclass(frozen=True)
class Source:
    """Files at one revision of a repository.

    Attributes:
        files: Hash of each file: SHA-256 (64 digits), git's name of the content (40 digits), or None.
        revision: Commit.
        repo: Data set on the Hugging Face hub, or None.
        url: URL on another server with ``{revision}`` and ``{file}``, or None.
    """

    files: Mapping[str, str | None]
    revision: str
    repo: str | None = None
    url: str | None = None


def load_sources() -> dict[str, Source]:
    """Load the table of sources, `sources.yaml`, by name."""
    table = yaml.safe_load(Path(__file__).with_name("sources.yaml").read_text(encoding="utf-8"))
    return {name: Source(**entry) for name, entry in table.items()}


def get(
    downloads: Sequence[Download], sources: Mapping[str, Source], root: Path, overwrite: bool = False
) -> None:
    """Fetch the published data that are not in a data root.

    Args:
        downloads: What to fetch.
        sources: Table of sources.
        root: Data root, created if necessary.
        overwrite: Whether to replace files that are not the published ones.

    Raises:
        FetchError: A download failed, or is not what was published.
        ConfigError: Other files have the same names, and ``overwrite`` is not set.
        RunningElsewhereError: Another process fetches into the same root.
    """
    missing = []
    for each in downloads:
        stock = take_stock(each, root)
        if stock.state == "complete":
            log.info("%s: complete.", each.name)
            continue
        if stock.other is not None and not overwrite:
            raise ConfigError(
                f"{stock.other} is in the place of the published file ({stock.note}).",
                key=each.name,
                hint="--overwrite replaces it; --root chooses another folder.",
            )
        missing.append(each)
    if not missing:
        return
    arrived = root / ".downloads"  # below the root, so that installing a file only renames it
    arrived.mkdir(parents=True, exist_ok=True)
    lock = root / ".downloads.lock"
    with locked_file(lock, lambda: f"another process is fetching data into {root}; wait for it."):
        for each in missing:
            _install(each, sources, root, arrived)
        shutil.rmtree(arrived)  # not before: two may share a file, and a failed command goes on there
        lock.unlink(missing_ok=True)


def _install(what: Download, sources: Mapping[str, Source], root: Path, folder: Path) -> None:
    arrived = {
        name: [fetch_file(sources[name], file, folder) for file in sources[name].files]
        for name in what.sources
    }
    with TemporaryDirectory(dir=folder) as temporary:
        staging = Path(temporary)
        convert(what, arrived, staging)
        stock = take_stock(what, staging)
        if stock.state != "complete":
            why = stock.note or "no file of it"
            raise FetchError(
                f"what arrived is not the published data, and nothing was installed: {why}.", key=what.name
            )
        for name in what.files:
            target = data_path(root, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            (staging / name).replace(target)
    number = counted(len(what.files), "file")
    log.info("%s: %s rows, %s below %s.", what.name, f"{stock.rows:,}", number, root)


def fetch_file(source: Source, name: str, folder: Path) -> Path:
    """Download a file of a source into a folder, and return its path.

    Raises:
        FetchError: The connection broke, the disk is full, or the content is not what was published.
    """
    from huggingface_hub import errors, hf_hub_download  # half a second, which other commands do without

    for client in ("httpx", "httpx2"):  # through one of these the hub's client logs every request
        logging.getLogger(client).setLevel(logging.WARNING)
    what = f"{source.repo or source.url}: {name} at {source.revision[:8]}"
    log.info("%s", what)
    try:
        if source.url is None:
            path = Path(
                hf_hub_download(
                    str(source.repo), name, repo_type="dataset", revision=source.revision, local_dir=folder
                )
            )
        else:
            path = folder / Path(name).name
            url = source.url.format(revision=source.revision, file=name)
            with urlopen(url, timeout=60) as answer, path.open("wb") as stream:
                shutil.copyfileobj(answer, stream)
    except (errors.HTTPError, HTTPException, OSError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise FetchError(
            f"{what} cannot be fetched ({reason[:400]}).",
            hint="Check the network, HF_ENDPOINT and HF_HUB_OFFLINE; the same command tries again.",
        ) from error
    wanted = source.files[name]
    if wanted is not None and (actual := _digest(path, len(wanted))) != wanted:
        path.unlink()
        raise FetchError(
            f"{what} arrived with the hash {actual}, not {wanted}, and was deleted.",
            hint="Run the command again; if it happens twice, the file or a proxy is at fault.",
        )
    return path


def _digest(path: Path, digits: int) -> str:
    """Return the SHA-256 of a file, or with 40 digits git's name of its content."""
    blob = b"blob %d\0" % path.stat().st_size
    start = hashlib.sha256() if digits == 64 else hashlib.sha1(blob, usedforsecurity=False)
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: start).hexdigest()


def convert(what: Download, arrived: Mapping[str, list[Path]], folder: Path) -> None:
    """Write the published files of a download.

    Args:
        what: The download.
        arrived: The files that were downloaded, by source.
        folder: Folder in the layout of a data root.
    """
    paths = [path for files in arrived.values() for path in files]
    if what.name in ("sts", "transfer"):
        _unpack(paths[0], what, folder)
    elif what.name == "pairs":
        _write_pairs(arrived, folder / PAIRS_FILE)
    else:
        by_name = {path.name: path for path in paths}
        for name in what.files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(by_name[Path(name).name], folder / name)


def _unpack(archive: Path, what: Download, folder: Path) -> None:
    """Extract the files of a download from SentEval's data in a tar file.

    Only regular files with these names are read, and written under these names: nothing in the archive
    decides where.
    """
    names = {file.removeprefix(f"{SENTEVAL}/") for file in what.files}
    tops = {name.partition("/")[0] for name in names}
    with tarfile.open(archive) as tar:
        for member in tar:
            steps = member.name.split("/")  # whatever folders the archive has above those of SentEval
            start = next((index for index, step in enumerate(steps) if step in tops), len(steps))
            name = "/".join(steps[start:])
            if member.isfile() and name in names:
                tar.extract(member.replace(name=f"{SENTEVAL}/{name}"), folder, filter="data")


CLASSES = ("entailment", "neutral", "contradiction")
"""Classes of SNLI and MultiNLI on the hub, in the order of their indices; -1: the annotators disagreed."""


def _write_pairs(arrived: Mapping[str, list[Path]], path: Path) -> None:
    """Write the pairs with a class and two texts that are not empty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write("premise\thypothesis\tlabel\tsource\n")
        for source, files in arrived.items():
            for row in (row for file in files for row in _labelled_pairs(file)):
                # Tabs and line ends would break the format; the reader folds white space too.
                texts = [" ".join((row[name] or "").split()) for name in ("premise", "hypothesis")]
                if all(texts):
                    stream.write("\t".join([*texts, CLASSES[row["label"]], source]) + "\n")


def _labelled_pairs(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    columns = ["premise", "hypothesis", "label"]
    for batch in pq.ParquetFile(path).iter_batches(10_000, columns=columns):
        yield from (row for row in batch.to_pylist() if row["label"] != -1)
