"""Fetching into a data root, from a local hub."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from sts_lightning.core.errors import ConfigError, FetchError, RunningElsewhereError
from sts_lightning.data.fetch import DOWNLOADS, Source, get, load_sources, select, take_stock
from sts_lightning.data.nli import nli_pairs
from sts_lightning.data.readers.sts_sets import load_sts_tasks
from sts_lightning.data.sts_train import sts_train
from tests.support.data_modules import training
from tests.support.hub_server import Hub
from tests.support.published_files import SIMCSE, parquet, published_tar, sts_files, tar

LINES = b"".join(b"line %d\n" % index for index in range(50))
WIKI = replace(DOWNLOADS["wiki"], files={"wiki1m_for_simcse.txt": 50})
"""The plain sentences, with fewer of them."""


@pytest.fixture
def table(hub: Hub) -> dict[str, Source]:
    """The project's table, with the repositories of the local hub."""
    hub.add(SIMCSE, {"senteval.tar": published_tar(), "wiki1m_for_simcse.txt": LINES})
    return {
        name: replace(source, revision="main", files=dict.fromkeys(source.files))
        for name, source in load_sources().items()
    }


def below(root: Path) -> set[str]:
    """Names of everything in a folder, hidden files included."""
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_sts_and_transfer(hub: Hub, table: dict[str, Source], tmp_path: Path) -> None:
    root = tmp_path / "new" / "data"
    wanted = [DOWNLOADS["sts"], DOWNLOADS["transfer"]]
    get(wanted, table, root)
    assert below(root) == {*wanted[0].files, *wanted[1].files}
    assert len(hub.downloads()) == 1  # one archive for both
    sizes = [sum(map(len, task.subsets.values())) for task in load_sts_tasks(root)]
    assert sizes == [3108, 1500, 3750, 3000, 1186, 1379, 4927]
    assert len(training(sts_train, str(root), filter="none").train) == 10_249


def test_the_second_time_nothing_is_fetched(hub: Hub, table: dict[str, Source], tmp_path: Path) -> None:
    get([WIKI], table, tmp_path)
    assert (tmp_path / "wiki1m_for_simcse.txt").read_bytes() == LINES
    hub.requests.clear()
    get([WIKI], table, tmp_path)
    assert hub.requests == []


def test_pairs(hub: Hub, table: dict[str, Source], tmp_path: Path) -> None:
    snli, multinli = parquet([("a", "b", 0), ("c", "d", 2)]), parquet([("e", "f", 1), ("g", "", 1)])
    hub.add("stanfordnlp/snli", {"plain_text/train-00000-of-00001.parquet": snli})
    hub.add("nyu-mll/multi_nli", {"data/train-00000-of-00001.parquet": multinli})
    pairs = replace(DOWNLOADS["pairs"], files={"nli/nli_pairs.tsv": 4})
    get([DOWNLOADS["sts"], pairs], table, tmp_path)
    assert training(nli_pairs, str(tmp_path)).train["label"][:] == [2, 0, 1]
    assert take_stock(pairs, tmp_path).state == "complete"  # a pair with an empty text was left out


@pytest.mark.parametrize("content", [LINES[:-8], LINES + b"one more\n", b"\xff" * 100])
def test_wrong_data_are_not_installed(
    content: bytes, hub: Hub, table: dict[str, Source], tmp_path: Path
) -> None:
    hub.add(SIMCSE, {"wiki1m_for_simcse.txt": content})
    with pytest.raises(FetchError) as caught:
        get([WIKI], table, tmp_path)
    assert caught.value.key == "wiki"
    assert {name.split("/")[0] for name in below(tmp_path)} <= {".downloads", ".downloads.lock"}


def test_a_truncated_file_in_the_archive(hub: Hub, table: dict[str, Source], tmp_path: Path) -> None:
    files = sts_files()
    files["SICK/SICK_train.txt"] = files["SICK/SICK_train.txt"][:-100]
    hub.add(SIMCSE, {"senteval.tar": tar(files)})
    with pytest.raises(FetchError, match="SICK_train"):
        get([DOWNLOADS["sts"]], table, tmp_path)
    assert not (tmp_path / "senteval").exists()


def test_an_interrupted_installation_is_completed(
    hub: Hub, table: dict[str, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_file, done = Path.replace, []

    def stopped(self: Path, target: Path) -> Path:
        if ".downloads" in str(self) and "senteval/" in self.as_posix():
            done.append(self)
            if len(done) == 5:
                raise KeyboardInterrupt
        return replace_file(self, target)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Path, "replace", stopped)
        get([DOWNLOADS["sts"]], table, tmp_path)
    assert len(below(tmp_path / "senteval")) == 4
    assert [path.name for path in tmp_path.glob(".downloads/*") if path.name != ".cache"] == ["senteval.tar"]
    get([DOWNLOADS["sts"]], table, tmp_path)
    assert len(below(tmp_path / "senteval")) == 54
    assert len(hub.downloads()) == 1  # the archive was still there


def test_a_full_disk_while_unpacking(
    hub: Hub, table: dict[str, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space"):
        patched.setattr("tarfile.copyfileobj", full)
        get([DOWNLOADS["sts"]], table, tmp_path)
    assert {name.split("/")[0] for name in below(tmp_path)} == {".downloads", ".downloads.lock"}
    get([DOWNLOADS["sts"]], table, tmp_path)
    assert len(hub.downloads()) == 1


def test_own_files_are_kept(hub: Hub, table: dict[str, Source], tmp_path: Path) -> None:
    path = tmp_path / "wiki1m_for_simcse.txt"
    path.write_text("mine\n")
    with pytest.raises(ConfigError, match="has 1 rows, published 50") as caught:
        get([WIKI], table, tmp_path)
    assert caught.value.key == "wiki"
    assert (path.read_text(), hub.requests) == ("mine\n", [])
    get([WIKI], table, tmp_path, overwrite=True)
    assert path.read_bytes() == LINES


def test_own_copy_of_the_published_file(hub: Hub, table: dict[str, Source], tmp_path: Path) -> None:
    (tmp_path / "wiki1m_for_simcse.txt").write_bytes(LINES.upper())
    get([WIKI], table, tmp_path)
    assert hub.requests == []
    assert below(tmp_path) == {"wiki1m_for_simcse.txt"}


def test_some_own_files_of_a_part(hub: Hub, table: dict[str, Source], tmp_path: Path) -> None:
    path = tmp_path / "senteval" / "SICK" / "SICK_train.txt"
    path.parent.mkdir(parents=True)
    path.write_text("mine\n")
    with pytest.raises(ConfigError, match=r"SICK_train\.txt has 1 rows, published 4,500"):
        get([DOWNLOADS["sts"]], table, tmp_path)


def test_a_root_that_is_sentevals_folder(hub: Hub, table: dict[str, Source], tmp_path: Path) -> None:
    (tmp_path / "STS").mkdir()
    get(select(["sts"]), table, tmp_path)
    assert (tmp_path / "SICK" / "SICK_train.txt").is_file()
    assert not (tmp_path / "senteval").exists()


def test_one_process_at_a_time(hub: Hub, table: dict[str, Source], tmp_path: Path) -> None:
    with FileLock(tmp_path / ".downloads.lock"), pytest.raises(RunningElsewhereError):
        get([WIKI], table, tmp_path)
    assert hub.requests == []


def test_names() -> None:
    assert [each.name for each in select(["transfer", "nli", "pairs"])] == [
        "triplets",
        "pairs",
        "transfer",
        "probing",
    ]
    assert select(["all"]) == list(DOWNLOADS.values())
    with pytest.raises(ConfigError, match="wikis"):
        select(["wikis"])
