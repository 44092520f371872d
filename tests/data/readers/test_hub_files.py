"""Broken files of data sets, in a folder and as a stream: the error names the file, and the setting."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sts_lightning.data.pairs_hub import PairsHubData
from sts_lightning.errors import DataError
from tests.data.hub_folder import NAMES, own_caches, rows

Row = tuple[Any, ...]


@pytest.fixture(autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with own_caches(tmp_path_factory.mktemp("caches")):
        yield


def table(pairs: Sequence[Row], names: Sequence[str] = NAMES) -> bytes:
    """A Parquet file."""
    stream = io.BytesIO()
    columns = [pa.array([row[i] for row in pairs]) for i in range(len(names))]
    pq.write_table(pa.Table.from_arrays(columns, names=list(names)), stream)
    return stream.getvalue()


def lines(pairs: Sequence[Row], names: Sequence[str] = NAMES) -> bytes:
    """A JSONL file."""
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in pairs).encode()


def csv(pairs: Sequence[Row], names: Sequence[str] = NAMES) -> bytes:
    """A CSV file without quotes."""
    return "".join(",".join(map(str, row)) + "\n" for row in (names, *pairs)).encode()


def scores(change: Any) -> list[Row]:
    """The pairs with changed scores."""
    return [(first, second, change(score)) for first, second, score in PAIRS]


def inserted(row: Row) -> list[Row]:
    """The pairs with a row 7 between them."""
    return [*PAIRS[:7], row, *PAIRS[7:]]


PAIRS = rows(20)
GOOD = table(PAIRS)
FIRST, SECOND = "train-00000-of-00002", "train-00001-of-00002"


class Case(NamedTuple):
    """Files of a data set with a mistake.

    Attributes:
        files: Content of each file.
        place: Text that the error has before the mistake.
        named: Text of the mistake.
        key: Setting that the error names.
        streamed: Whether a stream has the mistake as well; it does not read other splits.
    """

    files: dict[str, bytes]
    place: str
    named: str
    key: str = "data.path"
    streamed: bool = True


def shards(second: bytes, kind: str = "parquet", first: bytes = GOOD) -> dict[str, bytes]:
    """Two files of one split."""
    return {f"{FIRST}.{kind}": first, f"{SECOND}.{kind}": second}


P, C, J = "train.parquet", "train.csv", "train.jsonl"
ROW = "split train, {}, row {}: "

CASES = {
    "truncated": Case({P: GOOD[: len(GOOD) // 2]}, P, "corrupted"),
    "empty": Case({P: b""}, P, "0 bytes"),
    "pointer": Case({P: b"version https://git-lfs.github.com/spec/v1\n"}, P, "not a parquet file"),
    "flipped bits": Case({P: GOOD[:30] + bytes(b ^ 255 for b in GOOD[30:60]) + GOOD[60:]}, P, "orrupt"),
    "no rows": Case({P: table([])}, P, "it has no rows"),
    "one row": Case({P: table(PAIRS[:1])}, "split train", "1 distinct pair"),
    "text for scores": Case({P: table(scores(lambda score: "high"))}, ROW.format(P, 0), "'high'"),
    "lists for scores": Case({P: table(scores(lambda score: [score]))}, ROW.format(P, 0), "'score' must be"),
    "objects for scores": Case({P: table(scores(lambda score: {"v": 1}))}, ROW.format(P, 0), '{"v": 1}'),
    "bool for scores": Case({P: table(scores(lambda score: score > 2))}, ROW.format(P, 0), "false"),
    "bytes for scores": Case({P: table(scores(lambda score: b"1"))}, ROW.format(P, 0), "'score' must be"),
    "no scores": Case({P: table(scores(lambda score: None))}, ROW.format(P, 0), "not a number"),
    "null score": Case({P: table(inserted(("a", "b", None)))}, ROW.format(P, 7), "not a number"),
    "nan": Case({P: table(inserted(("a", "b", math.nan)))}, ROW.format(P, 7), "'nan'"),
    "infinity": Case({P: table(inserted(("a", "b", math.inf)))}, ROW.format(P, 7), "'inf'"),
    "null sentence": Case({P: table(inserted((None, "b", 1.0)))}, ROW.format(P, 7), "empty"),
    "numbers for sentences": Case({P: table([(1, *row[1:]) for row in PAIRS])}, ROW.format(P, 0), "not 1"),
    "lists for sentences": Case(
        {P: table([(["a"], *row[1:]) for row in PAIRS])}, ROW.format(P, 0), "a string"
    ),
    "no column": Case({P: table(PAIRS, ("sentence1", "sentence2", "label"))}, "train", "label", "data.score"),
    "case of a column": Case(
        {P: table(PAIRS, ("A", "sentence2", "score"))}, "train", "'A'", "data.sentence1"
    ),
    "column twice": Case({P: table([(*row, 1.0) for row in PAIRS], (*NAMES, "score"))}, P, "more than once"),
    "other split": Case({"validation.parquet": GOOD}, "", "validation?", "data.split"),
    "types of shards": Case(shards(table(scores(lambda score: "x"))), SECOND, "another kind"),
    "bool in a shard": Case(shards(table(scores(lambda score: True))), SECOND, "true and false"),
    "fractions in a shard": Case(
        shards(table(scores(lambda score: 0.5)), first=table(scores(int))), SECOND, "another kind"
    ),
    "columns of shards": Case(shards(table(PAIRS, ("a", "b", "c"))), SECOND, "columns are not those"),
    "truncated shard": Case(shards(GOOD[:-100]), SECOND, "corrupted"),
    "row of a shard": Case(
        shards(table(inserted(("", "b", 1.0)))), ROW.format(f"{SECOND}.parquet", 7), "empty"
    ),
    "missing shard": Case(
        {"train-00000-of-00003.parquet": GOOD, "train-00002-of-00003.parquet": GOOD},
        "",
        "train-00001-of-00003.parquet of the split 'train' is missing",
    ),
    "truncated split": Case(
        {P: GOOD, "test.parquet": GOOD[:50]}, "test.parquet", "corrupted", streamed=False
    ),
    "README.md": Case({P: GOOD, "README.md": b"---\nconfigs: [\n---\n"}, "", "README.md"),
    "count of README.md": Case(
        {
            P: GOOD,
            "README.md": b"---\ndataset_info:\n  features:\n"
            b"  - {name: sentence1, dtype: string}\n  - {name: sentence2, dtype: string}\n"
            b"  - {name: score, dtype: float64}\n  splits:\n"
            b"  - {name: train, num_bytes: 1, num_examples: 21}\n---\n",
        },
        "",
        "README.md states",
        streamed=False,
    ),
    "no files": Case({"README.md": b"# pairs"}, "", "no data files"),
    "images": Case({"train/a.png": b"\x89PNG"}, "", "imagefolder"),
    "no archive": Case({"train.zip": b"PK\x03\x04"}, "", "zip"),
    "empty CSV": Case({C: b""}, C, "it has no rows"),
    "header of CSV": Case({C: csv([])}, "train", "it has no rows"),
    "short row of CSV": Case({C: csv(PAIRS) + b"a,b\n"}, ROW.format(C, 20), "not a number"),
    "long row of CSV": Case({C: csv(PAIRS) + b"a,b,1,2\n"}, C, "line 22, saw 4"),
    "long rows of CSV": Case({C: csv([]) + b"a,b,1,2\n" * 3}, "", "header"),
    "column of CSV twice": Case(
        {C: csv([(*row, 1) for row in PAIRS], (*NAMES, "score"))}, "", "more than once", "data.score"
    ),
    "quote of CSV": Case({C: csv(PAIRS) + b'"a,b,1\n'}, C, "a quote is misplaced or missing"),
    "Latin-1 in CSV": Case({C: csv(PAIRS) + b"\xe9,b,1\n"}, C, "0xe9"),
    "UTF-16 of CSV": Case({C: csv(PAIRS).decode().encode("utf-16")}, C, "0xff"),
    "NUL in CSV": Case({C: csv(PAIRS) + b"a\0,b,1\n"}, ROW.format(C, 20), "NUL"),
    "nan in CSV": Case({C: csv(PAIRS) + b"a,b,nan\n"}, ROW.format(C, 20), "'nan'"),
    "bool in CSV": Case({C: csv(PAIRS) + b"a,b,True\n"}, ROW.format(C, 20), "'True'"),
    "truncated gzip": Case({"train.csv.gz": gzip.compress(csv(rows(500)))[:-60]}, "train.csv.gz", "end"),
    "empty JSONL": Case({J: b""}, "", "it has no rows"),
    "blank JSONL": Case({J: b"\n\n"}, "train", "it has no rows"),
    "half of JSONL": Case({J: lines(PAIRS) + b'{"sentence1": "a", "se'}, J, "row 20"),
    "null of JSONL": Case({J: lines(PAIRS) + b"null\n"}, ROW.format(J, 20), "not a number"),
    "lists of JSONL": Case({J: b'["a", "b", 1]\n' * 5}, J, "cannot be read"),
    "key of JSONL": Case(
        {J: lines(PAIRS) + b'{"sentence1": "a", "sentence2": "b"}\n'}, ROW.format(J, 20), "not a number"
    ),
    "key of JSONL twice": Case(
        {J: lines(PAIRS) + b'{"sentence1": "a", "sentence1": "c", "score": 1}\n'}, J, "twice in row 20"
    ),
    "bool in JSONL": Case({J: lines(inserted(("a", "b", True)))}, ROW.format(J, 7), "true"),
    "list in JSONL": Case({J: lines(inserted(("a", "b", [1])))}, ROW.format(J, 7), "[1]"),
    "object in JSONL": Case({J: lines(inserted(({"t": "a"}, "b", 1)))}, ROW.format(J, 7), '{"t": "a"}'),
    "surrogate in JSONL": Case({J: lines(inserted(("\ud800", "b", 1)))}, J, "surrogate"),
    "types of JSONL": Case(
        shards(lines(scores(lambda score: "x")), "jsonl", lines(PAIRS)), "train-0", "kind"
    ),
}


def put(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def read(folder: Path, streaming: bool = False) -> PairsHubData:
    data = PairsHubData(str(folder), 4, 1, **({"streaming": True, "limit": 60} if streaming else {}))
    data.setup()
    return data


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_error_names_file_and_setting(name: str, streaming: bool, tmp_path: Path) -> None:
    case = CASES[name]
    put(tmp_path / "own", case.files)
    if streaming and not case.streamed:
        assert len(read(tmp_path / "own", streaming).train) == 18
        return
    with pytest.raises(DataError) as caught:
        read(tmp_path / "own", streaming)
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "own"))
    assert case.place in message.replace(str(tmp_path), "")
    assert case.named in message
    assert caught.value.key == case.key
    assert len(message) < 700
    assert "\n" not in message


def test_a_broken_file_is_told_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "own", {P: GOOD[:100]})
    with pytest.raises(DataError):
        read(tmp_path / "own")
    assert "Failed to read" not in capfd.readouterr().err


def test_rows_keep_their_files_in_the_cache(tmp_path: Path) -> None:
    put(tmp_path / "own", shards(table(inserted(("", "b", 1.0)))))
    for _ in range(2):  # the second time from the prepared table
        with pytest.raises(DataError, match=rf"split train, {SECOND}\.parquet, row 7: "):
            read(tmp_path / "own")


def test_a_file_that_changed_but_kept_its_time_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "own" / "train.csv"
    put(file.parent, {"train.csv": csv([(f"x{i}", "y", float(i % 5)) for i in range(20)])})
    os.utime(file, (1e9, 1e9))
    read(file.parent)
    file.write_bytes(file.read_bytes().replace(b"x", b"z"))
    os.utime(file, (1e9, 1e9))
    assert all(text.startswith("z") for text in read(file.parent).train["sentence1"])


def test_tables_that_are_not_read_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(tmp_path / "own", {"train-0.parquet": GOOD, "train-1.csv": csv(rows(5, start=50))})
    with caplog.at_level("WARNING", logger="sts_lightning"):
        data = read(tmp_path / "own")
    assert len(data.train) + len(data.dev) == 20
    assert "not read, besides train-0.parquet: train-1.csv" in caplog.text


@pytest.mark.parametrize("streaming", [False, True])
def test_numbers_of_several_kinds_are_read(streaming: bool, tmp_path: Path) -> None:
    texts = table([(f"x{i}", "y", str(i % 5)) for i in range(5)])
    put(tmp_path / "own", shards(texts))
    data = read(tmp_path / "own", streaming)
    found = {row["sentence1"]: row["label"] for part in (data.train, data.dev) for row in part}
    assert {f"x{i}": float(i) for i in range(5)}.items() <= found.items()
    assert len(found) == 25


@pytest.mark.parametrize("write", [csv, lines])
def test_whole_numbers_before_decimal_ones(write: Callable[[Sequence[Row]], bytes], tmp_path: Path) -> None:
    """The library takes the type of a column from the first file, and of CSV from its first 10,000 rows."""
    whole = [(f"w{i}", "y", i % 5) for i in range(12_000 if write is csv else 20)]
    halves = [(f"h{i}", "y", i % 4 + 0.5) for i in range(5)]
    files = {"a.csv": write([*whole, *halves])} if write is csv else {"a.jsonl": write(whole)}
    put(tmp_path / "own", {**files, f"b.{'csv' if write is csv else 'jsonl'}": write(halves)})
    data = read(tmp_path / "own")
    found = [row["label"] for part in (data.train, data.dev) for row in part if row["sentence1"] == "h1"]
    assert set(found) == {1.5}
    assert len(data.train) + len(data.dev) == len(whole) + (10 if write is csv else 5)


def test_decimal_scores_of_parquet(tmp_path: Path) -> None:
    put(tmp_path / "own", {"train.parquet": table([(f"x{i}", "y", Decimal(i % 5) / 4) for i in range(20)])})
    data = read(tmp_path / "own")
    assert sorted({*data.train["label"], *data.dev["label"]}) == [0, 1.25, 2.5, 3.75, 5]


def test_a_separator_that_the_card_states(tmp_path: Path) -> None:
    text = b"sentence1;sentence2;score\n" + b"".join(b'"a; %d";b;%d\n' % (i, i % 5) for i in range(20))
    card = b'---\nconfigs:\n- config_name: default\n  data_files: train.csv\n  sep: ";"\n---\n'
    put(tmp_path / "own", {"train.csv": text, "README.md": card})
    data = read(tmp_path / "own")
    assert len(data.train) + len(data.dev) == 20
    assert "a; 0" in {*data.train["sentence1"], *data.dev["sentence1"]}


@pytest.mark.parametrize("streaming", [False, True])
def test_rows_of_tsv_that_look_quoted_are_named(
    streaming: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = "sentence1\tsentence2\tscore\n" + "".join(f'"a ""{i}"""\t"b"\t{i % 5}\n' for i in range(20))
    put(tmp_path / "own", {"train.tsv": text.encode()})
    read(tmp_path / "own", streaming)
    assert "20 rows look quoted as in CSV" in caplog.text


@pytest.mark.parametrize(("streaming", "key"), [(False, "data.path"), (True, "data.sentence1")])
def test_csv_files_with_other_columns(streaming: bool, key: str, tmp_path: Path) -> None:
    """A stream knows the columns of each file only when it comes to it."""
    put(tmp_path / "own", {"train-0.csv": csv(PAIRS), "train-1.csv": csv(PAIRS, ("a", "b", "c"))})
    with pytest.raises(DataError, match="column") as caught:
        read(tmp_path / "own", streaming)
    assert caught.value.key == key
