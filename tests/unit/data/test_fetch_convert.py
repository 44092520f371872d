"""Conversion of archives and parquet files."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from sts_lightning.data.fetch import DOWNLOADS, convert
from sts_lightning.data.readers.row_values import BadRows
from sts_lightning.data.readers.text_files import read_records
from tests.support.published_files import parquet, sts_files, tar


def arrived(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("prefix", ["", "./", "SentEval/data/downstream/"])
def test_archive(prefix: str, tmp_path: Path) -> None:
    files = {f"{prefix}{name}": content for name, content in sts_files().items()}
    others = {f"{prefix}STS/STS12-en-test/00-readme.txt": b"x", f"{prefix}._STS": b"x"}
    archive = arrived(tmp_path, "senteval.tar", tar({**files, **others}))
    convert(DOWNLOADS["sts"], {"sts": [archive]}, tmp_path / "out")
    written = {path for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert written == {tmp_path / "out" / name for name in DOWNLOADS["sts"].files}


def test_members_that_would_leave_the_folder(tmp_path: Path) -> None:
    """Links are not followed, and a name decides nothing but which of our own files it is."""
    files = sts_files()
    hostile = {f"../../{name}": content for name, content in files.items()}
    archive = arrived(tmp_path, "senteval.tar", tar(hostile))
    convert(DOWNLOADS["sts"], {"sts": [archive]}, tmp_path / "a" / "b" / "out")
    assert {path.name for path in tmp_path.iterdir()} == {archive.name, "a"}
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["out"]
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as links:
        for name in files:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/hostname"
            links.addfile(member)
    archive = arrived(tmp_path, "senteval.tar", stream.getvalue())
    convert(DOWNLOADS["sts"], {"sts": [archive]}, tmp_path / "links")
    assert not (tmp_path / "links").exists()


def test_pairs(tmp_path: Path) -> None:
    snli = parquet([("A\tb", "c\nd", 0), ("e", "f", -1), ("g", "h", 1), ("i", " ", 2)])
    multinli = parquet([('say "j"', "k", 2), ("l", "m\u2028n", 1)], genre=["fiction", "travel"])
    downloads = {
        "snli": [arrived(tmp_path, "snli.parquet", snli)],
        "multinli": [arrived(tmp_path, "multinli.parquet", multinli)],
    }
    convert(DOWNLOADS["pairs"], downloads, tmp_path / "out")
    rows = read_records(
        tmp_path / "out" / "nli" / "nli_pairs.tsv",
        ["premise", "hypothesis", "label", "source"],
        bad=BadRows(),
    )
    assert [fields for _, fields in rows] == [
        ["A b", "c d", "entailment", "snli"],
        ["g", "h", "neutral", "snli"],
        ['say "j"', "k", "contradiction", "multinli"],
        ["l", "m n", "neutral", "multinli"],
    ]
