"""What is there of each download."""

from __future__ import annotations

from pathlib import Path

from sts_lightning.data.fetch import DOWNLOADS, Stock, take_stock
from tests.support.published_files import sts_files


def stocks(root: Path) -> dict[str, Stock]:
    return {name: take_stock(each, root) for name, each in DOWNLOADS.items()}


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
        "wiki": ("other data", 1),
        "transfer": ("other data", 1),
        "probing": ("missing", 0),
    }
    assert found["triplets"].note == "nli/nli_triplets.csv is read instead"
    assert found["transfer"].note == "senteval/MR/rt-polarity.neg has 1 rows, published 5,331"
    (tmp_path / "senteval" / "MR" / "rt-polarity.neg").write_text("a\n" * 5331)
    (tmp_path / "nli" / "nli_pairs.tsv").write_text(
        "premise\thypothesis\tlabel\n" + "a\tb\tneutral\n" * 942_000
    )
    found = stocks(tmp_path)
    assert (found["transfer"].state, found["transfer"].rows) == ("incomplete", 5331)
    assert found["transfer"].note.startswith("1 of 15 files")
    assert found["pairs"].state == "complete"  # pairs with an empty text were left out
    assert DOWNLOADS["pairs"].published == 942_069


def test_the_real_data(data_root: str) -> None:
    found = stocks(Path(data_root))
    assert (found["sts"].state, found["transfer"].state) == ("complete", "complete")
