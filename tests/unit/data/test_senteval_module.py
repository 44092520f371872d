"""The user's own training, dev and test files of any kind, without SentEval's data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig

from sts_lightning.config.check import check_config
from sts_lightning.core.errors import ConfigError, DataError
from sts_lightning.data.nli import nli_pairs
from sts_lightning.data.own_rows import triplets
from sts_lightning.data.sentences import sentences
from sts_lightning.training.assembly import assemble
from tests.support.data_modules import data_module


def put(folder: Path, name: str, *lines: str) -> str:
    (folder / name).write_text("\n".join(lines) + "\n")
    return str(folder / name)


def own(folder: Path, **settings: Any) -> dict[str, Any]:
    dev = put(folder, "dev.csv", "q,a,s", "a0,p0,1", "u,v,9", "w,x,4")
    return {
        "root": "absent",
        "batch_size": 2,
        "seed": 1,
        "dev_path": dev,
        "scored_columns": ("q", "a", "s"),
    } | settings


def test_triplets_of_two_files_with_own_columns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in "ab":
        put(tmp_path, f"{name}.csv", "n,p,anchor", *(f"n{i},p{i},{name}{i}" for i in range(4)))
    data = data_module(triplets, path=f"{tmp_path}/[ab].csv", columns=("anchor", "p", "n"), **own(tmp_path))
    data.setup()
    assert data.train[4] == {"sentence1": "b0", "sentence2": "p0", "sentence3": "n0"}
    assert data.dev["label"][:] == [1, 9, 4]
    assert data.tests == []
    assert [(count.source, count.read) for count in data.counts] == [
        ("a.csv", 4),
        ("b.csv", 4),
        ("dev.csv, dev pairs", 3),
    ]
    assert str(data.trained_on) == "8 triplets (a.csv + b.csv)"
    assert "1 of 8 training pairs also occur in the dev pairs" in caplog.text
    assert "(a.csv: 1)" in caplog.text


def test_classes_of_ones_own(tmp_path: Path) -> None:
    path = put(tmp_path, "mine.tsv", "one\ttwo\tkind", "a\tb\tNo", "c\td\tyes", "e\tf\t1", "t\ts\tno")
    test = put(tmp_path, "test.csv", "q,a,s", "s,t,1", "x,y,2")
    data = data_module(
        nli_pairs,
        path=path,
        columns=("one", "two", "kind"),
        classes=("no", "yes"),
        **own(tmp_path, test_path=test),
    )
    data.setup()
    assert data.train["label"][:] == [0, 1, 1]
    assert data.counts[0].dropped["in a test set (exact)"] == 1
    assert (data.data_set.num_classes, data.data_set.top_label) == (2, 1)
    assert [task.name for task in data.tests] == ["test"]


@pytest.mark.parametrize(
    ("typed", "labels", "expected"),
    [
        ("[2,1,0]", "0 1 2", [2, 1, 0]),  # SNLI's integers: 0 is the most similar
        ('["2","1","0"]', "0 1 2", [2, 1, 0]),
        ("[false,true]", "TRUE FALSE True", [1, 0, 1]),  # as Excel writes them
        ("[0,1]", "0 1.0 1", [0, 1, 1]),
    ],
)
def test_classes_as_hydra_reads_them(
    typed: str, labels: str, expected: list[int], config: Callable[..., DictConfig], tmp_path: Path
) -> None:
    rows = [f"a{i}\tb{i}\t{label}" for i, label in enumerate(labels.split())]
    path = put(tmp_path, "mine.tsv", "one\ttwo\tkind", *rows)
    job = ["loss=cosent", "data=classes_file", f"path={path}", f"data.classes={typed}"]
    job += ["data.columns=[one,two,kind]", f"data.dev_path={own(tmp_path)['dev_path']}"]
    job += ["data.scored_columns=[q,a,s]"]
    data = assemble(check_config(config(*job)), "meta").data
    data.setup()
    assert data.train["label"][:] == expected


def test_sentences_of_two_files(tmp_path: Path) -> None:
    paths = [put(tmp_path, "a.txt", "One .", "", "Two ."), put(tmp_path, "b.txt", *"3456")]
    data = data_module(sentences, path=dict(zip(paths, (1, 0.5), strict=True)), limit=5, **own(tmp_path))
    data.setup()
    assert [count.read for count in data.counts] == [3, 4, 3]
    assert sum(count.kept for count in data.sources) == len(data.train) == 5
    assert data.rows[""].shares[1] == (data.counts[1].kept, data.counts[1].drawn)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"score_range": (1.0, 1.0)}, "score_range"),
        ({"columns": ("a", "a", "b")}, "columns"),
        ({"path": []}, "path"),
    ],
)
def test_rejected_arguments(settings: dict[str, Any], name: str, tmp_path: Path) -> None:
    for kind in (triplets, nli_pairs):
        with pytest.raises(ValueError, match=f"^{name}"):
            data_module(kind, **own(tmp_path, **settings))


def test_rejected_classes(tmp_path: Path) -> None:
    for classes in (("one",), ("no", "No ")):
        with pytest.raises(ValueError, match=r"^classes"):
            data_module(nli_pairs, path="x.csv", classes=classes, **own(tmp_path))


def test_without_own_pairs_the_dev_set_is_sts_b(root: Path) -> None:
    data = data_module(triplets, str(root), path=put(root, "x.csv", "sent0,sent1,hard_neg", "a,b,c", "d,e,f"))
    data.setup()
    assert len(data.dev) == 2
    assert len(data.tests) == 7


@pytest.mark.parametrize(
    ("pairs", "where"),
    [
        (["A cat.,A dog barks.,x", '"A dog, barks.",A cat.,x', "a,b,x"], "test pairs (the seven test sets)"),
        (["b,c,x", "Dog,Cat,x", "a,b,x"], "dev pairs (STS-B dev)"),
    ],
)
def test_own_training_files_are_compared_with_the_usual_pairs(
    pairs: list[str], where: str, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = put(root, "mine.csv", "sent0,sent1,hard_neg", *pairs)
    data_module(triplets, str(root), path, senteval_text="prepared").setup()
    assert f"2 of 3 training pairs also occur in the {where}" in caplog.text
    assert caplog.text.count("also occur") == 1


def test_the_setting_of_the_columns_is_named(tmp_path: Path) -> None:
    path = put(tmp_path, "t.csv", "sent0,sent1,hard_neg", "a,b,c", "d,e,f")
    given = own(tmp_path, path=path)
    with pytest.raises(ConfigError, match=r"^data\.scored_columns must name three different columns"):
        data_module(triplets, **given | {"scored_columns": ("q", "q", "s")}).setup()
    with pytest.raises(DataError, match=r"Give the names of the columns with data\.scored_columns") as caught:
        data_module(triplets, **given | {"scored_columns": ("q", "b", "s")}).setup()
    assert caught.value.key == "data.scored_columns"
