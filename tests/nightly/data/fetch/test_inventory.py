"""What is there of each part."""

from __future__ import annotations

from pathlib import Path

from sts_lightning.data.fetch.manifest import ManifestEntry, Stock, take_stock
from tests.support.published_files import sts_files


def stocks(root: Path, records: dict[str, ManifestEntry] | None = None) -> dict[str, Stock]:
    return {stock.part.name: stock for stock in take_stock(root, records or {})}


def test_an_empty_root(tmp_path: Path) -> None:
    assert {stock.state for stock in stocks(tmp_path).values()} == {"missing"}


def test_states(tmp_path: Path) -> None:
    for name, content in sts_files().items():
        path = tmp_path / "senteval" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "nli").mkdir()
    (tmp_path / "nli" / "nli_triplets.csv").write_text("sent0,sent1,hard_neg\na,b,c\n")
    (tmp_path / "nli" / "nli_pairs.tsv").write_text("premise\thypothesis\tlabel\na\tb\tneutral\n")
    (tmp_path / "wiki1m_for_simcse.txt").write_bytes(b"\xff\n")
    (tmp_path / "senteval" / "MR").mkdir()
    (tmp_path / "senteval" / "MR" / "rt-polarity.neg").write_text("a\n")
    found = stocks(tmp_path)
    assert {name: (stock.state, stock.rows) for name, stock in found.items()} == {
        "sts": ("complete", 31_099),
        "triplets": ("other data", None),
        "pairs": ("other data", 1),
        "wiki": ("unreadable", None),
        "transfer": ("incomplete", None),
        "probing": ("missing", 0),
    }
    assert found["triplets"].note == "nli/nli_triplets.csv is read instead"
    assert found["transfer"].note.startswith("1 of 15 files")
    assert found["pairs"].part.published == 942_069
    record = ManifestEntry(fetched="2026-01-01", downloads=[], files={}, rows=1, dropped=2)
    assert stocks(tmp_path, {"pairs": record})["pairs"].state == "complete"  # empty sentences were dropped


def test_the_real_data(data_root: str) -> None:
    found = stocks(Path(data_root))
    assert (found["sts"].state, found["transfer"].state) == ("complete", "complete")
