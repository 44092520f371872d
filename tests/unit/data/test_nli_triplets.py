from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.data.hub_pairs import triplets_hub
from sts_lightning.data.nli import nli_triplets
from sts_lightning.data.overlap import OverlapFilter
from tests.support.data_modules import data_module, training


def test_reads_simcses_columns(tmp_path: Path) -> None:
    (tmp_path / "nli").mkdir()
    (tmp_path / "nli" / "nli_triplets.csv").write_text(
        'sent0,sent1,hard_neg,source\r\n"A dog, running.",A dog.,A cat.,x\r\np,q,r,y\r\n'
    )
    splits = training(nli_triplets, str(tmp_path))
    table = splits.train
    assert table[0] == {"sentence1": "A dog, running.", "sentence2": "A dog.", "sentence3": "A cat."}
    assert len(table) == splits.train.sources[0].kept == 2


def test_the_published_file_comes_first(tmp_path: Path) -> None:
    (tmp_path / "nli_for_simcse.csv").write_text("sent0,sent1,hard_neg\na,b,c\n")
    assert len(training(nli_triplets, str(tmp_path)).train) == 1


def test_white_space_is_folded_in_the_published_file_alone(tmp_path: Path) -> None:
    for name in ("nli_for_simcse.csv", "mine.csv"):
        (tmp_path / name).write_text('sent0,sent1,hard_neg\n"a\n  b", c,"d  e"\n')
    found = [
        list(training(nli_triplets, str(tmp_path), path=path).train[0].values())
        for path in (None, str(tmp_path / "nli_for_simcse.csv"), str(tmp_path / "mine.csv"))
    ]
    assert found == [["a b", "c", "d e"]] * 2 + [["a\n  b", " c", "d  e"]]


def test_an_empty_sentence_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("sent0,sent1,hard_neg\na,b,\nd,e,f\n,b,c\n")
    with pytest.raises(
        DataError, match=r"mine\.csv, line 2: a sentence is empty; and 1 more row .*: line 4\.$"
    ):
        training(nli_triplets, ".", path=str(path))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no nli_for_simcse\.csv or .* path="):
        training(nli_triplets, str(tmp_path))


@pytest.mark.parametrize(("count", "unit"), [(2, "pairs"), (3, "triplets"), (5, "examples")])
def test_any_number_of_hard_negatives(count: int, unit: str, tmp_path: Path) -> None:
    names = ["q", "a", "n1", "n2", "n3"][:count]
    path = tmp_path / "mine.csv"
    path.write_text(
        "\n".join([",".join(names), *(",".join(f"{n} {i}" for n in names) for i in range(3))]) + "\n"
    )
    data = data_module(nli_triplets, ".", batch_size=2, seed=0, path=str(path), columns=tuple(names))
    train = training(nli_triplets, ".", path=str(path), columns=tuple(names)).train
    assert (len(data.data_set.views), data.data_set.unit) == (count, unit)
    assert train[1] == {f"sentence{v + 1}": f"{name} 1" for v, name in enumerate(names)}
    assert [view.column for view in data.data_set.views] == list(train.columns)


@pytest.mark.parametrize("columns", [["a"], ["a", "a"]])
def test_fewer_than_a_pair_of_columns(columns: list[str]) -> None:
    with pytest.raises(ValueError, match="columns must be two or more different names"):
        data_module(nli_triplets, ".", batch_size=2, seed=0, path="mine.csv", columns=tuple(columns))


def test_pairs_without_negatives_are_pointed_to(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("q,a\nx,y\n")
    with pytest.raises(DataError, match=r"without hard negatives as in 'data\.columns=\[q,a\]'"):
        training(nli_triplets, ".", path=str(path), columns=("q", "a", "n"))
    with pytest.raises(DataError, match=r"no column named 'b'; .*with data\.columns\.$"):  # not these
        training(nli_triplets, ".", path=str(path), columns=("q", "b"))


@pytest.mark.parametrize(("how", "kept"), [("none", "abc"), ("exact", "bc"), ("normalized", "c")])
def test_triplets_with_a_test_pair_are_dropped_and_counted(
    how: OverlapFilter, kept: str, tmp_path: Path
) -> None:
    path, test = tmp_path / "mine.csv", tmp_path / "test.csv"
    path.write_text("sent0,sent1,hard_neg\na,x,A dog\nb,y,z\nc,y,z\n")
    test.write_text("sentence1,sentence2,score\nA dog,a,1\nB!,Y,2\n")
    settings = {"columns": ("sent0", "sent1", "hard_neg"), "filter": how, "test_path": str(test)}
    for kind in (nli_triplets, triplets_hub):
        splits = training(kind, ".", str(path), **settings)
        assert splits.train["sentence1"][:] == list(kept)
        assert splits.train.sources[0].dropped[f"in a test set ({how})"] == 3 - len(kept)
