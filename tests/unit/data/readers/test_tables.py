from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.data.readers import tables
from sts_lightning.data.readers.lines import read_lines, read_tsv
from sts_lightning.data.readers.row_values import score


def read_rows(
    path: Path, columns: list[str], numbers: Sequence[str] = (), setting: str | None = None
) -> list[Any]:
    return list(tables.read_rows(path, columns, list, numbers=numbers, setting=setting))


NAMES = ["sentence1", "sentence2", "score"]


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_only_newlines_end_a_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "one\u2028still one\x85\r\ntwo\n\nfour")
    assert read_lines(path) == ["one\u2028still one\x85", "two", "", "four"]


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", b"\xef\xbb\xbfsentence1,sentence2,score\na,b,1\n")
    assert read_rows(path, NAMES) == [(2, ["a", "b", "1"])]


def test_csv_quoting_and_physical_line_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'score,sentence2,sentence1\r\n1,"b, ""c""","a\nA"\r\n2,e,d\r\n')
    assert read_rows(path, NAMES) == [(3, ["a\nA", 'b, "c"', "1"]), (4, ["d", "e", "2"])]


def test_tsv_has_no_quoting(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", 'sentence1\tsentence2\tscore\n"a\tb"\t3\n')
    assert read_rows(path, NAMES) == [(2, ['"a', 'b"', "3"])]


def test_rows_of_tsv_that_look_quoted_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As pandas writes them; quotes that belong to the text do not count."""
    texts = ['He said "no"', '"Yes" it was, "yes"', '"All of it"']
    table = pd.DataFrame({"sentence1": texts, "sentence2": "b"})
    table["score"] = [1, 2, 3]
    path = tmp_path / "a.tsv"
    table.to_csv(path, sep="\t", index=False)
    assert len(read_rows(path, NAMES)) == 3
    assert f"{path}, line 2: a text looks quoted as in CSV" in caplog.text
    caplog.clear()
    table.to_csv(path, sep="\t", index=False, quoting=csv.QUOTE_NONE)
    assert [row[0] for _, row in read_rows(path, NAMES)] == list(table["sentence1"])
    assert caplog.text == ""


def test_what_names_the_columns_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "q,a,s\na,b,1\n")
    with pytest.raises(DataError, match=r"Give the names of the columns with --columns\."):
        read_rows(path, NAMES, setting="--columns")
    with pytest.raises(
        DataError, match=r"there are 'q', 'a', 's'\. Line 1 has to name the columns, separated by commas"
    ):
        read_rows(path, NAMES)


ROWS = [('He said "no", then left.', "A; b", 3.5), ("Two\nlines", "c, d", -0.25), ("e", "f", 4.0)]


@pytest.mark.parametrize("separator", [";", "\t", ","])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_spreadsheets_with_decimal_commas(separator: str, quoting: int, tmp_path: Path) -> None:
    """As pandas writes them; pandas reads the same values."""
    path = tmp_path / "a.csv"
    table = pd.DataFrame(ROWS, columns=NAMES)
    table["score"] = table["score"].map(lambda score: str(score).replace(".", ","))
    table.to_csv(path, sep=separator, index=False, quoting=quoting)
    found = [(first, second, score(gold)) for _, (first, second, gold) in read_rows(path, NAMES)]
    again = pd.read_csv(path, sep=separator, decimal=",")
    assert found == ROWS == list(again.itertuples(index=False, name=None))


@pytest.mark.parametrize(
    ("first", "mark"), [("sep=;", ";"), ('"sep=;"', ";"), ("sep=|", "|"), ("sep=\t", "\t"), ("sep=,", ",")]
)
def test_a_first_line_names_the_separator(first: str, mark: str, tmp_path: Path) -> None:
    """The names and the first row have more semicolons and commas than the separator."""
    names = ["a;b;c", "d,e,f", "score"]
    table = pd.DataFrame([["x;y", "p,q", "1.5"], ["two\nlines", "r", "2"]], columns=names)
    path = tmp_path / "a.csv"
    path.write_text(f"{first}\r\n" + table.to_csv(sep=mark, index=False, lineterminator="\r\n"))
    assert read_rows(path, names, ["score"]) == [(3, ["x;y", "p,q", "1.5"]), (5, ["two\nlines", "r", "2"])]
    path.write_text(f"{first}\n" + table.to_csv(sep=mark, index=False).replace("f", "g"))
    with pytest.raises(DataError, match=r"a\.csv, line 2: no column named 'd,e,f'"):
        read_rows(path, names, ["score"])
    path.write_text(f"{first}\n")
    with pytest.raises(DataError, match="no header"):
        read_rows(path, names, ["score"])


def test_columns_with_another_separator(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "sentence1|sentence2|score\na|b|1\n")
    with pytest.raises(DataError, match=r"commas, semicolons or tabs, or what a line such as sep=\| above"):
        read_rows(path, NAMES)
    path = write(tmp_path / "a.tsv", "sentence1,sentence2,score\na,b,1\n")
    with pytest.raises(DataError, match=r"separated by tabs\.$"):
        read_rows(path, NAMES)


@pytest.mark.parametrize(
    ("name", "again"),
    [
        ("a.csv", "sentence1,sentence2,score"),
        ("a.csv", '\ufeff"sentence1","sentence2", score '),
        ("a.tsv", "\ufeffsentence1\tsentence2\tscore"),
    ],
)
def test_header_lines_of_joined_files(name: str, again: str, tmp_path: Path) -> None:
    mark = "," if name == "a.csv" else "\t"
    row = mark.join(["sentence1", "sentence2", "1"])  # a text may be the name of its column
    head = HEAD.replace(",", mark)
    path = write(tmp_path / name, f"{head}{row}\n{again}\n{row}\n{again}\n")
    for columns in (NAMES, NAMES[:2]):
        with pytest.raises(DataError, match=rf"{name}, line 3: the header once more"):
            read_rows(path, columns)
    assert len(read_rows(write(path, f"{head}{row}\n{row}\n"), NAMES)) == 2


@pytest.mark.parametrize(
    ("encoding", "text", "command"),
    [
        ("cp1252", "costs \u20ac5", "cp1252"),
        ("latin1", "caf\xe9", "cp1252"),
        ("utf-16", "costs", "utf-16"),
    ],
)
def test_the_command_for_another_encoding_keeps_the_text(
    encoding: str, text: str, command: str, tmp_path: Path
) -> None:
    content = HEAD + f"{text},b,1\n"
    path = write(tmp_path / "a.csv", content.encode(encoding))
    with pytest.raises(DataError, match=rf"`iconv -f {command} -t utf-8 OLD > NEW`"):
        read_rows(path, NAMES)
    write(path, path.read_bytes().decode(command))
    assert read_rows(path, NAMES) == [(2, [text, "b", "1"])]


@pytest.mark.parametrize("line", ["a,b,1.5", "a;b;1,5", "a,b,", "sentence1,b,c"])
def test_a_file_has_to_name_its_columns(line: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", f"{line}\n{line}\n")
    with pytest.raises(DataError, match=r"there are .* with --columns\. Line 1 has to name the columns"):
        read_rows(path, NAMES, ["score"], "--columns")


def test_jsonl(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"sentence1": "a", "sentence2": "b", "score": 2.5, "other": 1}\n')
    assert read_rows(path, NAMES, numbers=["score"]) == [(1, ["a", "b", "2.5"])]


HEAD = "sentence1,sentence2,score\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", r"a\.csv: the file is empty"),
        ("a.csv", HEAD, r"a\.csv: there are no rows"),
        (
            "a.csv",
            "s1,sentence2,score\na,b,1\n",
            r"a\.csv, line 1: no column named 'sentence1'; there are 's1'",
        ),
        ("a.csv", HEAD + "a,b,1\na,b\n", r"a\.csv, line 3: expected 3 columns, found 2"),
        ("a.csv", HEAD.encode() + b"a,caf\xe9,1\n", r"a\.csv, line 2: byte 0xe9 at column 6 is not UTF-8"),
        ("a.csv", HEAD + 'a,"b"c,1\n', r"a\.csv, line 2: not valid CSV"),
        ("a.tsv", "sentence1\tsentence2\tscore\na\tb\n", r"a\.tsv, line 2: expected 3 columns, found 2"),
        ("a.jsonl", "[1]\n", r"a\.jsonl, line 1: expected a JSON object"),
        ("a.jsonl", '{"sentence1": \n', r"a\.jsonl, line 1: not valid JSON"),
        (
            "a.jsonl",
            '{"sentence1": "a"}\n',
            r"a\.jsonl, line 1: no column named 'sentence2', 'score'; there are 'sentence1'",
        ),
        ("a.xlsx", "x", r"a\.xlsx: unknown file format; expected a name that ends in \.csv, \.tsv, \.jsonl"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(DataError, match=message):
        read_rows(path, NAMES)


def test_a_row_with_too_few_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "sts.csv", "a\tb\tc\na\tb\n")
    with pytest.raises(
        DataError, match=r"sts\.csv, line 2: expected at least 3 tab-separated columns, found 2"
    ):
        list(read_tsv(path, 3))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.csv: cannot be read"):
        read_lines(tmp_path / "none.csv")


TABLE = pd.DataFrame({"sentence1": ["a", "caf\xe9"], "sentence2": ["b", "d"], "score": [1.5, 2.0]})


def test_parquet_has_rows_from_0(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    TABLE.to_parquet(path)
    assert read_rows(path, NAMES, ["score"]) == [(0, ["a", "b", "1.5"]), (1, ["caf\xe9", "d", "2.0"])]
    with pytest.raises(
        DataError, match=r"a\.parquet, row 0: 'score' must be a string.* more row .*: row 1\.$"
    ):
        read_rows(path, NAMES)
    with pytest.raises(DataError, match=r"no column named 'x'; there are 'sentence1'.*with data\.columns\."):
        read_rows(path, ["sentence1", "x"], setting="data.columns")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv.gz", b"a,b\n1,2\n", r"a\.csv\.gz: cannot be decompressed"),
        (
            "a.csv.gz",
            gzip.compress(b"sentence1,sentence2,score\na,b,1\n", mtime=0)[:-9],
            "cannot be decompressed",
        ),
        ("a.parquet", b"PAR1 no more", r"a\.parquet: not a valid Parquet file"),
        ("a.parquet", None, r"a\.parquet: cannot be read"),
        ("a.gz", gzip.compress(b"x", mtime=0), "unknown file format"),
    ],
)
def test_broken_files(name: str, content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_rows(path, NAMES, ["score"])


def test_messages_are_texts(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        '{"messages": [{"role": "user", "content": "a"}], "score": 1, '
        '"positive_messages": [[{"role": "user", "content": "b"}]]}\n',
    )
    names = ["messages", "positive_messages", "score"]
    assert read_rows(path, names, ["score"]) == [(1, ["a", "b", "1"])]
