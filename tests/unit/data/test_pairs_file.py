from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.data.module import DataModule
from sts_lightning.data.own_pairs import pairs_file
from tests.support.data_modules import data_module

HEAD = "sentence1,sentence2,score\n"


def rows(count: int) -> list[tuple[str, str, float]]:
    return [(f"first {index}", f"second {index}", index % 5 + 0.5) for index in range(count)]


def save(folder: Path, kind: str, count: int = 30) -> str:
    path = folder / f"mine.{kind}"
    names = ("sentence1", "sentence2", "score")
    if kind == "jsonl":
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows(count)]
    else:
        mark = {"csv": ",", "tsv": "\t"}[kind]
        lines = [mark.join(names), *(mark.join(map(str, row)) for row in rows(count))]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_each_format_gives_the_same_split(tmp_path: Path, kind: str) -> None:
    data = data_module(pairs_file, save(tmp_path, kind), batch_size=4, seed=1, dev_fraction=0.2)
    data.setup()
    assert len(data.dev) == 6
    assert len(data.train) == 24
    both = list(data.train["sentence1"]) + list(data.dev["sentence1"])
    assert sorted(both) == sorted(first for first, _, _ in rows(30))
    other = data_module(pairs_file, save(tmp_path, "csv"), batch_size=4, seed=1, dev_fraction=0.2)
    other.setup()
    assert data.dev.columns == other.dev.columns


def test_the_split_depends_on_the_seed(tmp_path: Path) -> None:
    path = save(tmp_path, "csv")
    drawn = []
    for seed in (1, 2):
        data = data_module(pairs_file, path, batch_size=4, seed=seed)
        data.setup()
        drawn.append(set(data.dev["sentence1"]))
    assert drawn[0] != drawn[1]


def test_a_repeated_pair_stays_on_one_side(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    lines = [f"a{i % 10},b{i % 10},{i % 5}" if i < 20 else f"b{i % 10},a{i % 10},{i % 5}" for i in range(40)]
    path.write_text(HEAD + "\n".join(lines))
    data = data_module(pairs_file, str(path), batch_size=4, seed=0, dev_fraction=0.3)
    data.setup()
    train, dev = (
        {frozenset(pair) for pair in zip(table["sentence1"], table["sentence2"], strict=True)}
        for table in (data.train, data.dev)
    )
    assert not train & dev
    assert len(train | dev) == 10
    assert len(data.train) + len(data.dev) == 40


def test_own_columns_range_and_files(tmp_path: Path) -> None:
    for name, shift in (("train", 0), ("dev", 100), ("test", 200)):
        (tmp_path / f"{name}.csv").write_text(f"q,p,sim\na{shift},b,-1\nc{shift},d,0\ne{shift},f,1\n")
    data = data_module(
        pairs_file,
        str(tmp_path / "train.csv"),
        batch_size=2,
        seed=0,
        columns=("q", "p", "sim"),
        score_range=(-1, 1),
        dev_path=str(tmp_path / "dev.csv"),
        test_path=str(tmp_path / "test.csv"),
    )
    data.setup()
    assert data.train["label"][:] == [0.0, 2.5, 5.0]
    assert data.dev["sentence1"][:] == ["a100", "c100", "e100"]
    assert [task.name for task in data.tests] == ["test"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEAD + "a,b,1\nc,,2\n", r"mine\.csv, line 3: a sentence is empty"),
        (HEAD + "a,b,inf\n", r"mine\.csv, line 2: the score 'inf' is not a number"),
        (HEAD + "a,b,3\nc,d,3\n", r"mine\.csv: 2 distinct pairs are too few"),
        (HEAD + "a,b,3\n", r"mine\.csv: 1 distinct pair"),
        (HEAD + "a,b,3\nb,c,2\n", r"2 distinct pairs are too few to take a dev split"),
    ],
)
def test_broken_rows(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "mine.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        data_module(pairs_file, str(tmp_path / "mine.csv"), batch_size=2, seed=0).setup()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score_range": (1.0, 1.0)}, "score_range must be"),
        ({"dev_fraction": 0.0}, "dev_fraction must lie"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
    ],
)
def test_impossible_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        data_module(pairs_file, **{"path": "x.csv", "batch_size": 4, "seed": 0, **options})


ROW = {"sentence1": "a", "sentence2": "b", "score": 1}


def line(**fields: Any) -> str:
    return json.dumps(ROW | fields) + "\n"


CSV = HEAD + "".join(f"first {row},second {row},{row % 5}\n" for row in range(20))
GOOD = {
    "csv": CSV,
    "tsv": CSV.replace(",", "\t"),
    "jsonl": "".join(line(sentence1=f"first {row}", score=row % 5) for row in range(20)),
}


FILES: list[tuple[str, str, int, str]] = [
    ("csv", "c,d,\u0661\n", 22, "is not a number"),
    ("csv", "c,d,nan\n", 22, "nan"),
    ("csv", "c,d,\n", 22, "is not a number"),
    ("csv", f"c,d,{'1' * 5000}\n", 22, "1111..."),
    ("csv", "c,d\n", 22, "columns"),
    ("csv", "\nc,d,1\n", 22, "found 0"),
    ("csv", '"c,d,1\n', 22, "CSV"),
    ("tsv", "\t\t\n", 22, "is not a number"),
    ("jsonl", line(score=True), 21, "the score"),
    ("jsonl", line(score=[1]), 21, "'score'"),
    ("jsonl", line(score=None), 21, "is not a number"),
    ("jsonl", line(sentence1={"text": "a"}), 21, "'sentence1'"),
    ("jsonl", line(sentence1=7), 21, "'sentence1'"),
    ("jsonl", line(sentence2=None), 21, "empty"),
    ("jsonl", line(sentence1="a \ud800 b"), 21, "an unpaired surrogate"),
    ("jsonl", '{"sentence1": "a", "sentence2": "b", "score": 1, "score": 2}\n', 21, "'score' occurs twice"),
    ("jsonl", line().replace("1}", "1" * 5000 + "}"), 21, "JSON"),
    ("jsonl", "[" * 100_000 + "\n", 21, "nested"),
    ("jsonl", line(score=float("nan")), 21, "is not a number"),
    ("jsonl", '"text"\n', 21, "object"),
]


def read(path: Path, content: str) -> DataModule:
    path.write_text(content, encoding="utf-8")
    data = data_module(pairs_file, str(path), batch_size=4, seed=0, dev_fraction=0.3)
    data.setup()
    return data


@pytest.mark.parametrize(("kind", "row", "number", "reason"), FILES)
def test_rows_are_rejected_by_file_and_line(
    kind: str, row: str, number: int, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path / f"mine.{kind}", GOOD[kind] + row)
    assert str(caught.value).startswith(f"{tmp_path}/mine.{kind}, line {number}: ")
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("kind", "row", "pairs"),
    [
        ("csv", "\n", 20),
        ("csv", "\n  \r\n\n", 20),
        ("tsv", "\n\n", 20),
        ("jsonl", "\n\n", 20),
        ("csv", f"{'long ' * 40_000},d,1\n", 21),
        ("csv", f'"{"long " * 40_000}",d, 1.5 \n', 21),
        ("tsv", f"{'long ' * 40_000}\td\t+1.\n", 21),
        ("jsonl", line(sentence1="c", score=" 2.5e-1"), 21),
        ("jsonl", line(sentence1="\U0001f600", extra={"any": ["thing"]}), 21),
    ],
)
def test_rows_that_are_harmless(kind: str, row: str, pairs: int, tmp_path: Path) -> None:
    data = read(tmp_path / f"mine.{kind}", GOOD[kind] + row)
    assert len(data.train) + len(data.dev) == pairs


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_a_column_that_occurs_twice(kind: str, tmp_path: Path) -> None:
    content = "sentence1,sentence2,score,score\n" + "a,b,1,2\n" * 20
    with pytest.raises(DataError, match=r"line 1: the header has 'score' more than once"):
        read(tmp_path / f"mine.{kind}", content if kind == "csv" else content.replace(",", "\t"))
    unused = content.replace("score,score", "note,note").replace("sentence2,note", "sentence2,score")
    with pytest.raises(DataError, match="too few"):  # a surplus column may occur twice
        read(tmp_path / "mine.csv", unused.replace("score,note", "score,sentence"))


def test_several_files_with_weights(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The second file has one score only, which is fine beside the first one."""
    for name, count in (("a", 30), ("b", 20)):
        lines = [f"{name}{i},x{i},{i % 5 if name == 'a' else 5}" for i in range(count)]
        (tmp_path / f"{name}.csv").write_text(HEAD + "\n".join(lines))
    (tmp_path / "test.csv").write_text(HEAD + "a3,x3,1\nx4,b4,2\nb5,x5,2\n")
    paths = {str(tmp_path / "a.csv"): 2, str(tmp_path / "b.csv"): 0.5}
    data = data_module(pairs_file, paths, batch_size=4, seed=1, test_path=str(tmp_path / "test.csv"))
    with caplog.at_level("INFO"):
        data.setup()
    in_dev = [first[0] for first in data.dev["sentence1"]]
    kept = [30 - in_dev.count("a"), 20 - in_dev.count("b")]
    assert [(count.source, count.read, count.kept, count.weight) for count in data.counts] == [
        ("a.csv, training pairs", 30, kept[0], 2),
        ("b.csv, training pairs", 20, kept[1], 0.5),
        ("test.csv, test pairs", 3, 3, 1),
    ]
    assert data.rows[""].shares == [(kept[0], 2 * kept[0]), (kept[1], round(kept[1] / 2))]
    assert "".join(first[0] for first in data.train["sentence1"]) == "a" * kept[0] + "b" * kept[1]
    assert f"weight 0.5: {data.rows[''].shares[1][1]} rows in an epoch" in caplog.text
    found = {text for text in ("a3", "b4", "b5") if text in data.train["sentence1"][:]}
    assert f"{len(found)} of {sum(kept)} training pairs also occur in the test pairs" in caplog.text
    assert f"b.csv, training pairs: {len(found - {'a3'})}" in caplog.text


def test_a_row_of_any_file_is_named(tmp_path: Path) -> None:
    good = save(tmp_path, "csv")
    bad = tmp_path / "parts" / "bad.tsv"
    bad.parent.mkdir()
    bad.write_text("sentence1\tsentence2\tscore\na\tb\t1\nc\td\tnine\n")
    with pytest.raises(DataError) as caught:
        data_module(pairs_file, [good, f"{tmp_path}/parts/*.tsv"], batch_size=4, seed=1).setup()
    assert (caught.value.path, caught.value.line) == (bad, 3)


@pytest.mark.parametrize(
    ("kind", "rows", "message"),
    [
        (
            "csv",
            "a,,1\n,b,2\nc,d,1\na,b,x\n",
            r"line 22: a sentence is empty; and 2 more rows .*: lines 23, 25\.$",
        ),
        (
            "csv",
            "a,b,9\na,b,8\n",
            r"line 22: the score 9 lies outside \[0, 5\]; and 1 more row .*: line 23\.$",
        ),
        (
            "jsonl",
            line(sentence1=42) + line() + line(sentence2=7) + line(sentence1=" "),
            r"line 21: 'sentence1' must be a string, not 42; and 2 more rows .*: lines 23, 24\.$",
        ),
    ],
)
def test_broken_rows_are_counted(kind: str, rows: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / f"mine.{kind}"
    path.write_text(GOOD[kind] + rows)
    with pytest.raises(DataError, match=message):
        data_module(pairs_file, str(path), batch_size=4, seed=0, score_range=(0, 5)).setup()


def test_a_file_of_broken_rows_alone(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(line(sentence1=1) + line(sentence1=2))
    with pytest.raises(DataError, match="line 1: 'sentence1' must be a string, not 1; and 1 more row"):
        data_module(pairs_file, str(path), batch_size=4, seed=0).setup()


@pytest.mark.parametrize(
    ("words", "end"),
    [(("similar", "3"), r"[\d, ]*\.$"), (("similar", "different"), r".*For words .* data=classes_file ")],
)
def test_words_in_place_of_scores(words: tuple[str, str], end: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(line(score=words[row % 2]) for row in range(9)))
    with pytest.raises(DataError, match=r"is not a number; and \d more rows with errors: lines " + end):
        data_module(pairs_file, str(path), batch_size=4, seed=0).setup()


def test_a_weight_that_leaves_no_row(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="1 training example left, but training needs at least two") as caught:
        data_module(pairs_file, {save(tmp_path, "csv"): 0.01}, batch_size=4, seed=1).setup()
    assert caught.value.key == "path"


def test_similar_pairs_alone(tmp_path: Path) -> None:
    """Thirty pairs of scores 0.5 to 4.5 on their own scale; the dev split is that of all pairs."""
    path = save(tmp_path, "csv")
    every = data_module(pairs_file, path, batch_size=4, seed=1, dev_fraction=0.2, score_range=(0, 10))
    every.setup()
    data = data_module(
        pairs_file, path, batch_size=4, seed=1, dev_fraction=0.2, score_range=(0, 10), positives_from=3.5
    )
    data.setup()
    assert (len(data.data_set.views), data.data_set.label) == (2, "none")
    assert data.dev.columns == every.dev.columns
    assert min(data.dev["label"]) < 1
    kept = [
        first
        for first, label in zip(every.train["sentence1"], every.train["label"], strict=True)
        if label >= 1.75
    ]
    assert list(data.train["sentence1"]) == kept
    assert data.counts[0].dropped == {"dev split": 6, "below data.positives_from=3.5": 24 - len(kept)}


def test_too_few_similar_pairs(tmp_path: Path) -> None:
    path = save(tmp_path, "csv")
    with pytest.raises(DataError, match=r"0 training examples left, .* below data\.positives_from=5"):
        data_module(pairs_file, path, batch_size=4, seed=1, positives_from=5).setup()


def test_similar_pairs_may_all_have_one_score(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(HEAD + "\n".join(f"a{i},b{i},5" for i in range(4)) + "\n")
    data = data_module(
        pairs_file, str(tmp_path / "mine.csv"), dev_path=save(tmp_path, "tsv"), positives_from=5
    )
    data.setup()
    assert (len(data.train), len(data.dev)) == (4, 30)
