"""Pairs and triplets of folders, files and a local hub, as `datasets` reads them."""

from __future__ import annotations

import csv
import logging
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets.config
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import HfFileSystem, constants

from sts_lightning.core.errors import DataError
from sts_lightning.data.hub_pairs import pairs_hub, triplets_hub
from sts_lightning.data.module import DataModule
from sts_lightning.data.own_pairs import pairs_file
from sts_lightning.data.readers.hub import HubTable
from sts_lightning.data.readers.row_values import BadRows
from sts_lightning.data.readers.rows import TextRow
from tests.support.data_modules import data_module
from tests.support.hub_folder import own_caches, rows, save
from tests.support.hub_server import Hub

REPO = "owner/pairs"


@pytest.fixture(autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with own_caches(tmp_path_factory.mktemp("caches")):
        yield


def read(path: Path | str, **options: Any) -> DataModule:
    data = data_module(pairs_hub, str(path), **{"batch_size": 4, "seed": 1, **options})
    data.setup()
    return data


def rejected(path: Path | str, **options: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        read(path, **options)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value)) < 700
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_each_format_gives_what_a_file_gives(tmp_path: Path, kind: str) -> None:
    saved = save(tmp_path / "hub", "train", rows(30), kind)
    file = data_module(pairs_file, str(save(tmp_path, "mine", rows(30), "csv")), batch_size=4, seed=1)
    file.setup()
    for path in (tmp_path / "hub", saved):
        data = read(path)
        assert data.train.columns == file.train.columns
        assert data.dev.columns == file.dev.columns
    assert str(data.trained_on).startswith("27 pairs (")
    assert not data.trained_on.differs


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_texts_are_read_as_those_of_a_file(tmp_path: Path, kind: str) -> None:
    """Words that look missing, numbers, and the quotes of TSV are text; scores may change their kind."""
    quote = '"' if kind == "tsv" else ""
    pairs = [
        (f"{quote}None", "NA", 1),
        ("null", "n/a", 2),
        ("2019", "1e5", 3),
        *rows(10),
        ("true", "nan", 2.5),
    ]
    lines = ["sentence1,sentence2,score", *(",".join(map(str, pair)) for pair in pairs)]
    text = "\n".join(lines).replace(",", "\t" if kind == "tsv" else ",") + "\n"
    for folder in ("hub", "file"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"train.{kind}").write_text(text)
    file = data_module(pairs_file, str(tmp_path / "file" / f"train.{kind}"), batch_size=4, seed=1)
    file.setup()
    data = read(tmp_path / "hub")
    assert data.train.columns == file.train.columns
    assert data.dev.columns == file.dev.columns


def test_whole_numbers_before_decimal_ones(tmp_path: Path) -> None:
    """The library takes the type of a column from its first rows, if nothing else is said."""
    save(tmp_path, "train", [*((f"w{i}", "y", i % 5) for i in range(12_000)), ("h", "y", 1.5)], "csv")
    data = read(tmp_path)
    found = [row["label"] for part in (data.train, data.dev) for row in part if row["sentence1"] == "h"]
    assert found == [1.5]


def test_named_splits_columns_and_range(tmp_path: Path) -> None:
    for start, split in ((0, "train"), (100, "validation"), (200, "test")):
        pairs = [(f"a{start}", "b", -1), ("c", f"d{start}", 0), ("e", "f", 1)]
        save(tmp_path / "own", split, pairs, names=("q", "p", "label"))
    splits = {"dev_split": "validation", "test_split": "test"}
    data = read(tmp_path / "own", columns=("q", "p", "label"), score_range=(-1, 1), **splits)
    assert data.train["label"][:] == [0.0, 2.5, 5.0]
    assert data.dev["sentence1"][:] == ["a100", "c", "e"]
    assert [(task.name, len(task.subsets["test"])) for task in data.tests] == [("own", 3)]


def test_the_row_of_a_score_that_would_decide_the_range_is_named(tmp_path: Path) -> None:
    save(tmp_path, "train", [*rows(150, top=1.0), ("a", "b", -0.01)])
    told = str(rejected(tmp_path))
    assert f"{tmp_path}, split train: all scores but 1 of 151 lie in [0, 1]: -0.01 (row 150)." in told
    assert "'data.score_range=[-1,1]'" in told


def test_a_limit_is_a_fixed_sample(tmp_path: Path) -> None:
    save(tmp_path, "train", rows(100))
    sampled, again = read(tmp_path, limit=40), read(tmp_path, limit=40)
    assert sampled.train.columns == again.train.columns
    assert sampled.trained_on.dropped == {"data.limit": 60, "dev split": 4}


def test_similar_pairs_alone(tmp_path: Path) -> None:
    save(tmp_path, "train", [(f"a{i}", f"b{i}", i / 20) for i in range(20)], "csv")
    data = read(tmp_path, positives_from=0.5)
    assert data.data_set.label == "none"
    assert data.source_score(5) == 1
    assert all(int(text[1:]) >= 10 for text in data.train["sentence1"])


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ((None, "b", 1.0), "a sentence is empty"),
        ((" \t", "b", 1.0), "a sentence is empty"),
        (("a", "b", math.nan), "the score 'nan' is not a number"),
        (("a", "b", None), "the score '' is not a number"),
        (("a", "b", 6.0), "the score 6 lies outside"),
    ],
)
def test_broken_rows_are_named(bad: tuple[Any, Any, Any], message: str, kind: str, tmp_path: Path) -> None:
    save(tmp_path, "train", [*rows(1_500), bad, *rows(3, start=2_000), bad], kind)
    told = str(rejected(tmp_path, score_range=(0, 5)))
    assert f"{tmp_path}, split train, row 1500: {message}" in told
    assert "and 1 more row with errors" in told


def test_values_of_another_kind(tmp_path: Path) -> None:
    save(tmp_path / "numbers", "train", [(1, "b", 1.0), (2, "d", 2.0)])
    assert "row 0: 'sentence1' must be a string, not 1" in str(rejected(tmp_path / "numbers"))
    save(tmp_path / "bools", "train", [("a", "b", True), ("c", "d", False)])
    assert "row 0: the score 'True' is not a number" in str(rejected(tmp_path / "bools"))


CSV = "sentence1,sentence2,score\n" + "".join(f"a {n},b {n},{n / 2}\n" for n in range(10))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (CSV.replace("a 0", '"Hello there').replace("a 9", 'He said "bye"'), "expected after"),
        (CSV + '"a,b,1\n', "unexpected end"),
        (CSV + "a,b,1,2\n", "saw 4"),
        (CSV + "a,b\n", "row 10: the score '' is not a number"),
        ("sentence1,sentence2,score\na,b,c,1\nd,e,f,2\n", "more fields than the header"),
        (CSV.replace("sentence2", "score"), "'sentence2'"),
        ("sentence1,sentence2,score,score\na,b,1,2\nc,d,2,3\n", "more than once"),
        ("score,sentence1,sentence2\n1,a,b\n2,c\n", "row 1: a sentence is empty"),
        ("sentence1,sentence2,score\n", "no data"),
        ("", ""),
    ],
)
def test_broken_csv(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text(text)
    assert told in str(rejected(tmp_path))


def test_a_truncated_file(tmp_path: Path) -> None:
    whole = save(tmp_path, "train", rows(500))
    whole.write_bytes(whole.read_bytes()[:-100])
    error = rejected(tmp_path)
    assert error.key == "path"
    assert "it cannot be read (Arrow" in str(error)


def test_a_missing_file_of_a_split(tmp_path: Path) -> None:
    for number in (0, 2):
        save(tmp_path, f"train-{number:05d}-of-00003", rows(20, 20 * number))
    assert "train-00001-of-00003.parquet of the split 'train' is missing" in str(rejected(tmp_path))
    save(tmp_path, "train-00001-of-00003", rows(20, 20))
    assert read(tmp_path).train.sources[0].read == 60


def test_what_is_not_there(tmp_path: Path) -> None:
    for split in ("train", "validation"):
        save(tmp_path, split, rows(3), names=("sentence1", "sentence2", "label"))
    error = rejected(tmp_path)
    assert error.key == "data.columns"
    assert "no column named 'score'; there are 'sentence1', 'sentence2', 'label'" in str(error)
    error = rejected(tmp_path, split="valid")
    assert (error.key, error.hint) == ("data.split", "There are: train, validation.")
    named = {"columns": ("sentence1", "sentence2", "label")}
    error = rejected(tmp_path, dev_split="xyz", **named)
    assert (error.key, error.hint) == ("data.dev_split", "There are: train, validation.")
    assert rejected("glue").key == "path"
    assert rejected(tmp_path / "absent").key == "path"
    assert rejected(tmp_path, revision="main").key == "data.revision"
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "a.txt").write_text("a\nb\n")
    assert "of the kind text" in str(rejected(tmp_path / "words"))


def test_configurations(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "---\nconfigs:\n- config_name: en\n  data_files: en.parquet\n"
        "- config_name: de\n  data_files: de.parquet\n---\n"
    )
    save(tmp_path, "en", rows(30))
    save(tmp_path, "de", rows(50))
    assert read(tmp_path, config="de").train.sources[0].read == 50
    for options in ({}, {"config": "fr"}):
        error = rejected(tmp_path, **options)
        assert error.key == "data.config"
        assert "'en', 'de'" in str(error)


def test_a_file_that_changed_but_kept_its_time_is_read_anew(tmp_path: Path) -> None:
    file = save(tmp_path, "train", [(f"x{i}", "y", float(i % 5)) for i in range(20)], "csv")
    os.utime(file, (1e9, 1e9))
    read(tmp_path)
    file.write_bytes(file.read_bytes().replace(b"x", b"z"))
    os.utime(file, (1e9, 1e9))
    assert all(text.startswith("z") for text in read(tmp_path).train["sentence1"])


def test_reading_changes_no_setting_of_the_process(tmp_path: Path) -> None:
    def settings() -> tuple[Any, ...]:
        levels = {name: logging.getLogger(name).level for name in ("datasets", "datasets.packaged_modules")}
        public = {name: value for name, value in vars(datasets.config).items() if name.isupper()}
        return csv.field_size_limit(), levels, public, datasets.are_progress_bars_disabled()

    save(tmp_path, "train", rows(20), "csv")
    before = settings()
    read(tmp_path)
    assert settings() == before


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"limit": 1}, "limit must be at least 2"),
        ({"dev_split": "train"}, "split must not be"),
        ({"split": "a", "test_split": "a"}, "split must not be"),
    ],
)
def test_impossible_options(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        data_module(pairs_hub, **{"path": REPO, "batch_size": 4, "seed": 0, **options})


@pytest.mark.parametrize("columns", [("anchor", "positive"), ("anchor", "positive", "negative")])
def test_triplets(columns: tuple[str, ...], tmp_path: Path) -> None:
    found = [(f"a {i}", f"p {i}", f"n {i}") for i in range(20)]
    save(tmp_path, "train", found, names=("anchor", "positive", "negative"))
    scored = str(save(tmp_path.parent / f"{tmp_path.name}-own", "dev", rows(10), "csv"))
    data = data_module(triplets_hub, "absent", str(tmp_path), columns, dev_path=scored)
    data.setup()
    of = data.data_set
    assert (len(of.views), of.label, of.published_rows) == (len(columns), "none", None)
    assert data.train["sentence2"][:] == [f"p {i}" for i in range(20)]
    assert len(data.dev) == 10
    few = data_module(triplets_hub, "absent", str(tmp_path), columns, limit=5, dev_path=scored)
    few.setup()
    assert few.train.sources[0].dropped["data.limit"] == 15
    save(tmp_path, "train", [*found, ("a", " ", "n")], names=("anchor", "positive", "negative"))
    with pytest.raises(DataError, match="split train, row 20: a sentence is empty"):
        data_module(triplets_hub, "absent", str(tmp_path), columns, dev_path=scored).setup()


def test_lists_of_a_table(tmp_path: Path) -> None:
    records = {
        "query": ["a", "b", "c", "d"],
        "pos": [["p", "q"], ["r"], [], ["s", " "]],
        "neg": [["n"], None, ["m"], ["m"]],
    }
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table(records), path)
    table = HubTable(str(path), ("query", "pos", "neg"))
    bad = BadRows()
    assert table.has_lists("train")
    assert list(table.text_rows("train", "data.split", bad)) == [
        TextRow(0, "a", ["p", "q"], ["n"]),
        TextRow(1, "b", ["r"], []),
    ]
    with pytest.raises(
        DataError, match=r"split train, row 2: 'pos' has no texts; and 1 more row with errors"
    ):
        bad.check()
    other = HubTable(str(path), ("anchor", "positive", "negative"))
    with pytest.raises(DataError, match=r"Near are: 'data\.columns=\[query,pos,neg\]'\.$"):
        list(other.text_rows("train", "data.split", bad))


def parquet(count: int, start: int = 0) -> bytes:
    sink = pa.BufferOutputStream()
    columns = zip(*rows(count, start), strict=True)
    pq.write_table(
        pa.table(dict(zip(("sentence1", "sentence2", "score"), map(list, columns), strict=True))), sink
    )
    return bytes(sink.getvalue().to_pybytes())


@pytest.fixture
def server(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    url = hub.url + "/datasets/{repo_id}/resolve/{revision}/{path}"
    monkeypatch.setattr(datasets.config, "HUB_DATASETS_URL", url)
    monkeypatch.setattr(datasets.config, "USE_PARQUET_EXPORT", False)  # of another server
    HfFileSystem.clear_instance_cache()
    yield hub
    HfFileSystem.clear_instance_cache()


def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (constants, datasets.config):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", True)


def test_from_the_hub(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    old = server.add(REPO, {"train.parquet": parquet(20)})
    new = server.add(REPO, {"train.parquet": parquet(30, 100), "validation.parquet": parquet(10, 500)})
    data = read(REPO, dev_split="validation")
    assert (len(data.train), len(data.dev)) == (30, 10)
    assert data.counts[0].source == f"{REPO}@{new[:8]}, split train, training pairs"
    pinned = read(REPO, revision=old)
    assert pinned.train.sources[0].read == 20
    assert f"@{old[:8]}" in pinned.train.sources[0].source
    assert rejected(REPO, revision="other").key == "data.revision"
    offline(monkeypatch)
    server.requests.clear()
    assert read(REPO, revision=old).train.columns == pinned.train.columns
    assert server.requests == []
    server.repos.clear()
    assert "Check the name" in (rejected("owner/absent").hint or "")


def test_the_cache_is_of_the_revision_that_is_asked_for(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    old = server.add(REPO, {"train.csv": CSV.encode()})
    new = server.add(REPO, {"train.csv": CSV.replace("a", "z").encode()})
    online = read(REPO)
    offline(monkeypatch)
    server.requests.clear()
    for revision in (None, new[:12]):
        assert read(REPO, revision=revision).train.columns == online.train.columns
    error = rejected(REPO, revision=old)
    assert error.key == "data.revision"
    assert f"holds the commit {new}" in str(error)
    assert server.requests == []


@pytest.mark.parametrize(
    ("answer", "told"), [((401, "RepoNotFound"), "doesn't exist"), ((403, "GatedRepo"), "gated")]
)
def test_data_sets_that_cannot_be_had(answer: tuple[int, str], told: str, server: Hub) -> None:
    server.errors["owner/closed"] = answer
    error = rejected("owner/closed")
    assert error.key == "path"
    assert told in str(error)
    assert "hf auth login" in (error.hint or "")


def test_code_of_a_data_set_is_not_run(server: Hub, tmp_path: Path) -> None:
    code = f"open({str(tmp_path / 'ran')!r}, 'w')"
    server.add(REPO, {"pairs.py": code.encode()})
    assert "script" in str(rejected(REPO))
    save(tmp_path / "mine", "train", rows(3))
    (tmp_path / "mine" / "mine.py").write_text(code)
    assert "script" in str(rejected(tmp_path / "mine"))
    assert not list(tmp_path.rglob("ran"))
