"""Published numbers of rows, and which data they belong to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig

from sts_lightning.core.files import as_type
from sts_lightning.data.counts import TrainingCount
from sts_lightning.data.data_set import DataSet
from sts_lightning.data.hub_pairs import triplets_hub
from sts_lightning.data.nli import nli_pairs, nli_triplets
from sts_lightning.data.sentences import sentences
from sts_lightning.data.sts_train import sts_train
from sts_lightning.testing.toy import toy
from sts_lightning.training.assembly import make_data
from tests.support.data_modules import data_module


@pytest.mark.parametrize(
    ("kind", "options", "published"),
    [
        (nli_triplets, {}, 275_601),
        (nli_triplets, {"path": "elsewhere/nli_for_simcse.csv"}, 275_601),
        (nli_triplets, {"path": "mine.csv"}, None),
        (nli_triplets, {"published_rows": 480_862}, 480_862),
        (triplets_hub, {"path": "owner/name", "columns": ("a", "b")}, None),
        (sentences, {}, 1_000_000),
        (sentences, {"limit": 5}, 1_000_000),
        (sentences, {"path": "mine.txt"}, None),
        (nli_pairs, {}, 549_367 + 392_702),
        (nli_pairs, {"scored": True}, 314_315 + 314_090),
        (nli_pairs, {"path": "mine.tsv"}, None),
        (sts_train, {}, 5_398),
        (sts_train, {"filter": "none"}, 10_249),
        (sts_train, {"filter": "normalized"}, 5_318),
        (sts_train, {"positives_from": 4.0}, 1_543),
        (sts_train, {"positives_from": 3.0}, None),
        (sts_train, {"positives_from": 4.0, "filter": "none"}, None),
    ],
)
def test_numbers_of_the_papers(
    kind: Callable[..., DataSet], options: dict[str, Any], published: int | None
) -> None:
    assert kind("root", **options).published_rows == published


@pytest.mark.parametrize(
    ("kind", "unit"),
    [("pairs", "pairs"), ("triplets", "triplets"), ("classes", "pairs"), ("sentences", "sentences")],
)
def test_toy_data_is_in_no_paper(kind: Any, unit: str) -> None:
    data = data_module(toy, kind=kind, train_size=20, dev_size=10, test_size=10)
    data.setup()
    assert data.trained_on == TrainingCount(f"toy {kind}", unit, 20)
    assert str(data.trained_on) == f"20 {unit} (toy {kind})"
    assert not data.trained_on.differs


@pytest.fixture
def dev(tmp_path: Path) -> str:
    (tmp_path / "dev.csv").write_text("sentence1,sentence2,score\na,c,0\nb,d,5\n")
    return str(tmp_path / "dev.csv")


def test_a_smaller_file_of_triplets(tmp_path: Path, dev: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sts_lightning.data.nli.TRIPLETS", 3)
    (tmp_path / "nli").mkdir()
    found = []
    for rows in (2, 3):
        (tmp_path / "nli" / "nli_triplets.csv").write_text("sent0,sent1,hard_neg\n" + "a,b,c\n" * rows)
        data = data_module(nli_triplets, str(tmp_path), dev_path=dev)
        data.setup()
        found.append((str(data.trained_on), data.trained_on.differs, data.trained_on.source))
    assert found == [
        ("2 of 3 triplets", True, "nli_triplets.csv"),
        ("3 of 3 triplets", False, "nli_triplets.csv"),
    ]


def test_a_limit_is_a_difference_with_its_reason(
    tmp_path: Path, dev: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sts_lightning.data.sentences.SENTENCES", 1_205)
    (tmp_path / "wiki1m_for_simcse.txt").write_text("a b c\n" * 1_205 + "\n" * 2)
    data = data_module(sentences, str(tmp_path), dev_path=dev, limit=1_000)
    data.setup()
    assert str(data.trained_on) == "1,000 of 1,205 sentences"
    assert data.trained_on.reasons == "2 dropped: empty line, 205 dropped: data.limit"
    whole = data_module(sentences, str(tmp_path), dev_path=dev)
    whole.setup()
    assert not whole.trained_on.differs


@pytest.mark.parametrize(
    "data",
    [
        [],
        ["data=triplets_hub", "path=owner/name", "data.columns=[text,positive,negative]"],
        ["data=triplets_file", "path=nli_for_simcse.csv", "data.columns=[sent0,sent1,hard_neg]"],
    ],
)
def test_bellm_has_other_triplets_than_simcse(data: list[str], config: Callable[..., DictConfig]) -> None:
    """The number is of Pcc-tuning, Sec. 4.1."""
    assert make_data(config("experiment=bellm", *data)).data_set.published_rows == 480_862


def test_round_trip() -> None:
    count = TrainingCount("a.csv", "pairs", 3, 4, {"why": 1})
    assert as_type(asdict(count), TrainingCount) == count
