"""Published numbers of rows, and which data they belong to."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset

from sts_lightning.core.json_files import as_type
from sts_lightning.data.counts import TrainingCount
from sts_lightning.data.nli import NLIPairsData, NLITripletsData
from sts_lightning.data.sentences import SentencesData
from sts_lightning.data.senteval_module import SentEvalData
from sts_lightning.data.sts import STSData
from sts_lightning.data.tables import make_table
from sts_lightning.testing.toy import ToyData

SETTINGS: dict[str, Any] = {"batch_size": 2, "seed": 0}


@pytest.mark.parametrize(
    ("kind", "options", "published"),
    [
        (NLITripletsData, {}, 275_601),
        (NLITripletsData, {"path": "elsewhere/nli_for_simcse.csv"}, 275_601),
        (NLITripletsData, {"path": "mine.csv"}, None),
        (SentencesData, {}, 1_000_000),
        (SentencesData, {"limit": 5}, 1_000_000),
        (SentencesData, {"path": "mine.txt"}, None),
        (NLIPairsData, {}, 549_367 + 392_702),
        (NLIPairsData, {"scored": True}, 314_315 + 314_090),
        (NLIPairsData, {"path": "mine.tsv"}, None),
        (STSData, {}, 5_398),
        (STSData, {"filter": "none"}, 10_249),
        (STSData, {"filter": "normalized"}, 5_318),
        (STSData, {"positives_from": 4.0}, 1_543),
        (STSData, {"positives_from": 3.0}, None),
        (STSData, {"positives_from": 4.0, "filter": "none"}, None),
    ],
)
def test_numbers_of_the_papers(
    kind: type[SentEvalData], options: dict[str, Any], published: int | None
) -> None:
    assert kind("root", **SETTINGS, **options).published_rows == published


@pytest.mark.parametrize(
    ("kind", "unit"),
    [("pairs", "pairs"), ("triplets", "triplets"), ("classes", "pairs"), ("sentences", "sentences")],
)
def test_toy_data_is_in_no_paper(kind: Any, unit: str) -> None:
    data = ToyData(**SETTINGS, kind=kind, train_size=20, dev_size=10, test_size=10)
    data.setup()
    assert data.trained_on == TrainingCount(f"toy {kind}", unit, 20)
    assert str(data.trained_on) == f"20 {unit} (toy {kind})"
    assert not data.trained_on.differs


def _dev(self: SentEvalData) -> Dataset:
    return make_table({"sentence1": ["a", "b"], "sentence2": ["c", "d"], "label": [0.0, 5.0]})


def test_a_smaller_file_of_triplets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NLITripletsData, "load_dev", _dev)
    monkeypatch.setattr(NLITripletsData, "load_tests", lambda self: [])
    monkeypatch.setattr("sts_lightning.data.nli.TRIPLETS", 3)
    (tmp_path / "nli").mkdir()
    found = []
    for rows in (2, 3):
        (tmp_path / "nli" / "nli_triplets.csv").write_text("sent0,sent1,hard_neg\n" + "a,b,c\n" * rows)
        data = NLITripletsData(str(tmp_path), **SETTINGS)
        data.setup()
        found.append((str(data.trained_on), data.trained_on.differs, data.trained_on.source))
    assert found == [
        ("2 of 3 triplets", True, "nli_triplets.csv"),
        ("3 of 3 triplets", False, "nli_triplets.csv"),
    ]


def test_a_limit_is_a_difference_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SentencesData, "load_dev", _dev)
    monkeypatch.setattr(SentencesData, "load_tests", lambda self: [])
    monkeypatch.setattr("sts_lightning.data.sentences.SENTENCES", 1_205)
    (tmp_path / "wiki1m_for_simcse.txt").write_text("a b c\n" * 1_205 + "\n" * 2)
    data = SentencesData(str(tmp_path), **SETTINGS, limit=1_000)
    data.setup()
    assert str(data.trained_on) == "1,000 of 1,205 sentences"
    assert data.trained_on.reasons == "2 dropped: empty line, 205 dropped: data.limit"
    whole = SentencesData(str(tmp_path), **SETTINGS)
    whole.setup()
    assert not whole.trained_on.differs


def test_round_trip() -> None:
    count = TrainingCount("a.csv", "pairs", 3, 4, {"why": 1})
    assert as_type(asdict(count), TrainingCount) == count
