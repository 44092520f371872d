from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.data import dev_and_tests
from sts_lightning.data.data_set import Splits
from sts_lightning.data.nli import nli_pairs
from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.table import Table
from tests.support.data_modules import training


@pytest.fixture(autouse=True)
def one_test_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table({"sentence1": ["Down ."], "sentence2": ["Up ."], "label": [1.0]})
    monkeypatch.setattr(dev_and_tests, "load_sts_tasks", lambda root, **_: [STSTask("toy", {"test": table})])


def read(path: Path, **settings: Any) -> Splits:
    return training(nli_pairs, root=".", path=str(path), **settings)


def write(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(["premise\thypothesis\tlabel\tsource", *rows]) + "\n")
    return path


def test_classes_are_in_the_order_of_similarity(tmp_path: Path) -> None:
    rows = ["A .\tB .\tentailment\tx", "C .\tD .\tcontradiction\tx", "E .\tF .\tNeutral\tx", "G .\tH .\t2\tx"]
    path = write(tmp_path / "pairs.tsv", *rows)
    table = read(path).train
    assert list(table["label"]) == [2, 0, 1, 2]
    assert list(table["sentence2"]) == ["B .", "D .", "F .", "H ."]
    assert nli_pairs(".", str(path)).top_label == 2


def test_pairs_of_a_test_set_are_dropped_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", "Up .\tDown .\tneutral\tx", "C .\tD .\tneutral\tx", "E .\tF .\t0\tx")
    source = read(path)
    assert list(source.train["sentence1"]) == ["C .", "E ."]
    assert source.train.sources[0].dropped == {"in a test set (exact)": 1, "data.limit": 0}
    assert len(read(path, filter="none").train) == 3


def test_white_space_is_folded_in_the_published_file_alone(tmp_path: Path) -> None:
    (tmp_path / "nli").mkdir()
    path = write(tmp_path / "nli" / "nli_pairs.tsv", " A  b\tC\t0\tx", "D\tE\t1\tx")
    published = training(nli_pairs, root=str(tmp_path))
    assert [source.train["sentence1"][0] for source in (published, read(path))] == ["A b", " A  b"]


def test_limit_draws_the_same_pairs(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", *(f"p{n}\th{n}\t{n % 3}\tx" for n in range(50)))
    first, second = (list(read(path, limit=9).train["sentence1"]) for _ in range(2))
    assert first == second
    assert len(first) == 9


def test_a_wrong_label_names_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", "A .\tB .\tneutral\tx", "A .\tB .\tmaybe\tx", " \tB .\tneutral\tx")
    with pytest.raises(
        DataError,
        match=r"pairs\.tsv, line 3: .*'maybe' is not contradiction, neutral, entailment .*; and 1 more",
    ):
        read(path)


def test_rejected_arguments() -> None:
    with pytest.raises(ValueError, match="columns must be 3 different names"):
        read(Path("x.tsv"), columns=("a", "b"))
    with pytest.raises(ValueError, match="limit must be at least 2"):
        read(Path("x.tsv"), limit=1)
