from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pandas as pd
import pytest

from sts_lightning.data.readers.text_files import read_lines, read_records, read_tsv
from sts_lightning.errors import DataError

NAMES = ["sentence1", "sentence2", "score"]


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_only_newlines_end_a_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "one\u2028still one\x85\r\ntwo\n\nfour")
    assert read_lines(path) == ["one\u2028still one\x85", "two", "", "four"]


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b"\xef\xbb\xbfsentence1,sentence2,score\na,b,1\n")
    assert list(read_records(path, NAMES)) == [(2, ["a", "b", "1"])]


def test_csv_quoting_and_physical_line_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'score,sentence2,sentence1\r\n1,"b, ""c""","a\nA"\r\n2,e,d\r\n')
    assert list(read_records(path, NAMES)) == [(3, ["a\nA", 'b, "c"', "1"]), (4, ["d", "e", "2"])]


def test_tsv_has_no_quoting(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", 'sentence1\tsentence2\tscore\n"a\tb"\t3\n')
    assert list(read_records(path, NAMES)) == [(2, ['"a', 'b"', "3"])]


def test_rows_of_tsv_that_look_quoted_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As pandas writes them; quotes that belong to the text do not count."""
    texts = ['He said "no"', '"Yes" it was, "yes"', '"All of it"']
    table = pd.DataFrame({"sentence1": texts, "sentence2": "b"})
    table["score"] = [1, 2, 3]
    path = tmp_path / "a.tsv"
    table.to_csv(path, sep="\t", index=False)
    assert len(list(read_records(path, NAMES))) == 3
    assert f"{path}: 3 rows look quoted as in CSV" in caplog.text
    caplog.clear()
    table.to_csv(path, sep="\t", index=False, quoting=csv.QUOTE_NONE)
    assert [row[0] for _, row in read_records(path, NAMES)] == list(table["sentence1"])
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"one\ntwo\n", mtime=0), "is compressed; unpack it"),
        (b"PK\x03\x04...", "is a ZIP archive or a spreadsheet"),
        (b"PAR1...", "is Parquet"),
    ],
    ids=["gzip", "zip", "parquet"],
)
def test_files_that_are_no_text(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"a\.txt: {message}"):
        read_lines(write(tmp_path / "a.txt", content))


def test_what_names_the_columns_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "q,a,s\na,b,1\n")
    with pytest.raises(DataError, match=r"Give the names of the columns with --columns\."):
        list(read_records(path, NAMES, setting="--columns"))
    with pytest.raises(DataError, match=r"has 'q', 'a', 's'\.$"):
        list(read_records(path, NAMES))


def test_jsonl(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"sentence1": "a", "sentence2": "b", "score": 2.5, "other": 1}\n')
    assert list(read_records(path, NAMES, numbers=["score"])) == [(1, ["a", "b", "2.5"])]


HEAD = "sentence1,sentence2,score\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", r"a\.csv: the file is empty"),
        ("a.csv", HEAD, r"a\.csv: the file has a header but no rows"),
        (
            "a.csv",
            "s1,sentence2,score\na,b,1\n",
            r"a\.csv, line 1: no column named 'sentence1'; the file has 's1'",
        ),
        ("a.csv", HEAD + "a,b,1\na,b\n", r"a\.csv, line 3: expected 3 columns, found 2"),
        ("a.csv", HEAD.encode() + b"a,caf\xe9,1\n", r"a\.csv, line 2: byte 0xe9 at column 6 is not UTF-8"),
        ("a.csv", HEAD + 'a,"b"c,1\n', r"a\.csv, line 2: not valid CSV"),
        ("a.tsv", "sentence1\tsentence2\tscore\na\tb\n", r"a\.tsv, line 2: expected 3 columns, found 2"),
        ("a.jsonl", "[1]\n", r"a\.jsonl, line 1: expected a JSON object"),
        ("a.jsonl", '{"sentence1": \n', r"a\.jsonl, line 1: not valid JSON"),
        ("a.jsonl", '{"sentence1": "a"}\n', r"a\.jsonl, line 1: no key 'sentence2', 'score'"),
        ("a.xlsx", "x", r"a\.xlsx: unknown file format; expected a name that ends in \.csv, \.tsv, \.jsonl"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(DataError, match=message):
        list(read_records(path, NAMES))


def test_a_row_with_too_few_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "sts.csv", "a\tb\tc\na\tb\n")
    with pytest.raises(
        DataError, match=r"sts\.csv, line 2: expected at least 3 tab-separated columns, found 2"
    ):
        list(read_tsv(path, 3))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.csv: cannot be read"):
        read_lines(tmp_path / "none.csv")
