"""Scored pairs of a folder of tables; `tests/data/readers/test_hub.py` reads from a server."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sts_lightning.data.own_pairs import PairsFileData
from sts_lightning.data.pairs_hub import PairsHubData
from sts_lightning.errors import DataError
from tests.data.hub_folder import own_caches, rows, save


@pytest.fixture(autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with own_caches(tmp_path_factory.mktemp("caches")):
        yield


def read(folder: Path, **options: Any) -> PairsHubData:
    data = PairsHubData(str(folder), **{"batch_size": 4, "seed": 1, **options})
    data.setup()
    return data


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("streaming", [False, True])
def test_each_format_gives_what_a_file_gives(tmp_path: Path, kind: str, streaming: bool) -> None:
    save(tmp_path / "hub", "train", rows(30), kind)
    file = PairsFileData(str(save(tmp_path, "mine", rows(30), "csv")), batch_size=4, seed=1)
    file.setup()
    data = read(tmp_path / "hub", **({"streaming": True, "limit": 30} if streaming else {}))
    assert data.train.to_dict() == file.train.to_dict()
    assert data.dev.to_dict() == file.dev.to_dict()
    assert str(data.trained_on).startswith("27 pairs (")
    assert not data.trained_on.differs


@pytest.mark.parametrize("streaming", [False, True])
def test_quotes_of_tsv_are_letters(tmp_path: Path, streaming: bool) -> None:
    pairs = [('"Hello there', "b", 1.0), *rows(10), ('He said "bye"', '"Yes" he said', 2.0)]
    lines = ["sentence1\tsentence2\tscore", *("\t".join(map(str, pair)) for pair in pairs)]
    for folder in ("hub", "file"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.tsv").write_text("\n".join(lines) + "\n")
    file = PairsFileData(str(tmp_path / "file" / "train.tsv"), batch_size=4, seed=1)
    file.setup()
    data = read(tmp_path / "hub", **({"streaming": True, "limit": 12} if streaming else {}))
    assert data.train.to_dict() == file.train.to_dict()
    assert data.dev.to_dict() == file.dev.to_dict()


@pytest.mark.parametrize("streaming", [False, True])
def test_a_misplaced_quote_of_csv_merges_no_rows(tmp_path: Path, streaming: bool) -> None:
    middle = "\n".join(f"a {n},b {n},{n / 2}" for n in range(10))
    (tmp_path / "train.csv").write_text(
        f'sentence1,sentence2,score\n"Hello there,b,1\n{middle}\nHe said "bye",c,2\n'
    )
    with pytest.raises(DataError, match=r"train\.csv: it is not valid CSV: a quote is misplaced"):
        read(tmp_path, **({"streaming": True, "limit": 12} if streaming else {}))


def test_long_texts_of_csv_are_read(tmp_path: Path) -> None:
    save(tmp_path, "train", [("word " * 40_000, "b", 1.0), *rows(10)], "csv")
    data = read(tmp_path)
    assert max(map(len, [*data.train["sentence1"], *data.dev["sentence1"]])) > 190_000


def test_words_that_look_missing_are_words(tmp_path: Path) -> None:
    pairs = [("None", "NA", 1.0), ("null", "n/a", 2.0), *rows(10)]
    save(tmp_path, "train", pairs, "csv")
    for options in ({}, {"streaming": True, "limit": 12}):
        data = read(tmp_path, **options)
        whole = {*data.train["sentence1"], *data.dev["sentence1"]}
        assert {"None", "null"} <= whole


def test_named_splits_columns_and_range(tmp_path: Path) -> None:
    names = ("q", "p", "label")
    for start, split in ((0, "train"), (100, "validation"), (200, "test")):
        save(
            tmp_path / "own",
            split,
            [(f"a{start}", "b", -1), ("c", f"d{start}", 0), ("e", "f", 1)],
            names=names,
        )
    data = read(
        tmp_path / "own",
        sentence1="q",
        sentence2="p",
        score="label",
        score_range=(-1, 1),
        dev_split="validation",
        test_split="test",
    )
    assert data.train["label"][:] == [0.0, 2.5, 5.0]
    assert data.dev["sentence1"][:] == ["a100", "c", "e"]
    assert [(task.name, len(task.subsets["test"])) for task in data.tests] == [("own", 3)]


def test_the_range_is_recognised_as_that_of_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save(tmp_path, "train", rows(20, top=0.9))
    with caplog.at_level("INFO", logger="sts_lightning"):
        data = read(tmp_path)
    assert "scores from 0 to 0.9, taken to be in [0, 1]; data.score_range=[" in caplog.text
    assert max([*data.train["label"], *data.dev["label"]]) == pytest.approx(4.5)


def test_an_unknown_range_has_to_be_given(tmp_path: Path) -> None:
    save(tmp_path, "train", rows(20, top=7))
    with pytest.raises(DataError) as caught:
        read(tmp_path)
    assert caught.value.key == "data.score_range"
    assert "[0,7]" in (caught.value.hint or "")
    assert max(read(tmp_path, score_range=(0, 7)).train["label"]) == 5.0


def test_dev_scores_may_have_another_scale(tmp_path: Path) -> None:
    save(tmp_path, "train", rows(20, top=1))
    save(tmp_path, "validation", rows(20, top=5))
    assert max(read(tmp_path, dev_split="validation").dev["label"]) == 5
    with pytest.raises(
        DataError, match=r"split validation, validation.parquet, row 1: the score 1\.25 lies outside \[0, 1\]"
    ):
        read(tmp_path, dev_split="validation", score_range=(0, 1))


def test_broken_rows_are_counted(tmp_path: Path) -> None:
    save(
        tmp_path, "train", [*rows(5), ("a", None, 1.0), *rows(3, start=9), (" ", "b", 1.0), ("c", "d", None)]
    )
    with pytest.raises(
        DataError, match=r"train\.parquet, row 5: a sentence is empty; and 2 more rows with err"
    ):
        read(tmp_path)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (("", "b", 1.0), "a sentence is empty"),
        ((" \t", "b", 1.0), "a sentence is empty"),
        ((None, "b", 1.0), "a sentence is empty"),
        (("a", "b", math.nan), "the score 'nan' is not a number"),
        (("a", "b", math.inf), "the score 'inf' is not a number"),
        (("a", "b", None), "the score '' is not a number"),
        (("a", "b", 6.0), r"the score 6 lies outside \[0, 5\]"),
    ],
)
@pytest.mark.parametrize("streaming", [False, True])
def test_broken_rows_are_named(
    bad: tuple[Any, Any, Any], message: str, streaming: bool, tmp_path: Path
) -> None:
    save(tmp_path, "train", [*rows(1_500), bad, *rows(3, start=2_000)])
    more: dict[str, Any] = {"streaming": True, "limit": 1_502} if streaming else {}
    with pytest.raises(DataError, match=rf"{tmp_path.name}, split train, train.parquet, row 1500: {message}"):
        read(tmp_path, score_range=(0, 5), **more)


def test_values_of_another_kind(tmp_path: Path) -> None:
    save(tmp_path / "numbers", "train", [(1, "b", 1.0), (2, "d", 2.0)])
    with pytest.raises(DataError, match="row 0: 'sentence1' must be a string, not 1"):
        read(tmp_path / "numbers")
    save(tmp_path / "bools", "train", [("a", "b", True), ("c", "d", False)])
    with pytest.raises(DataError, match="row 0: 'score' must be a string or a number, not true"):
        read(tmp_path / "bools")


def test_a_limit_samples_or_takes_the_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save(tmp_path, "train", rows(100))
    sampled, again = read(tmp_path, limit=40), read(tmp_path, limit=40)
    assert len(sampled.train) + len(sampled.dev) == 40
    assert sampled.train.to_dict() == again.train.to_dict()
    assert sampled.trained_on.dropped == {"data.limit": 60, "dev split": 4}
    first = read(tmp_path, limit=40, streaming=True)
    found = {*first.train["sentence1"], *first.dev["sentence1"]}
    assert found == {f"first {i}" for i in range(40)}
    assert found != {*sampled.train["sentence1"], *sampled.dev["sentence1"]}
    assert first.counts[0].read == 40


def test_similar_pairs_alone(tmp_path: Path) -> None:
    lines = ["sentence1,sentence2,score", *(f"a{i},b{i},{i / 20}" for i in range(20))]
    (tmp_path / "train.csv").write_text("\n".join(lines) + "\n")
    data = read(tmp_path, positives_from=0.5)
    data.setup()
    assert data.label == "none"
    assert data.own_score(5) == 1
    assert all(int(text[1:]) >= 10 for text in data.train["sentence1"])
    assert data.counts[0].kept == len(data.train) >= 8


def test_streaming_stops_at_the_limit(tmp_path: Path) -> None:
    """A broken row after the limit is not read, and neither is anything else written to the cache."""
    import datasets.config

    save(tmp_path, "train", [*rows(20), ("", "", 1.0)])
    assert len(read(tmp_path, limit=20, streaming=True).train) == 18
    assert not list(Path(datasets.config.HF_DATASETS_CACHE).rglob("*.arrow"))
    with pytest.raises(DataError, match="row 20: a sentence is empty"):
        read(tmp_path, limit=20)


@pytest.mark.parametrize("streaming", [False, True])
def test_pairs_that_also_occur_in_the_test_split_are_reported(
    streaming: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path, "train", rows(20))
    swapped = [(second, first, score) for first, second, score in rows(3)]
    save(tmp_path, "validation", rows(10, start=50))
    save(tmp_path, "test", [*swapped, *rows(10, start=70)])
    more: dict[str, Any] = {"streaming": True, "limit": 20} if streaming else {}
    data = read(tmp_path, dev_split="validation", test_split="test", **more)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "3 of 20 training pairs also occur in the test pairs" in warnings[0]
    assert len(data.train) == 20


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"streaming": True}, "streaming needs a limit"),
        ({"limit": 1}, "limit must be at least 2"),
        ({"dev_split": "train"}, "dev_split must not be"),
        ({"split": "a", "test_split": "a"}, "test_split must not be"),
        ({"score_range": (1.0, 1.0)}, "score_range must be"),
        ({"dev_fraction": 1.0}, "dev_fraction must lie"),
        ({"score": "sentence1"}, "three different columns"),
    ],
)
def test_impossible_options(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        PairsHubData(**{"path": "owner/name", "batch_size": 4, "seed": 0, **options})
