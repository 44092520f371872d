"""What is there, and who needs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from omegaconf import DictConfig

from sts_lightning.data.fetch.inventory import Stock, experiment_data, needed_by, take_stock
from sts_lightning.data.fetch.manifest import FetchedFile, Record
from sts_lightning.data.fetch.parts import NEEDS, PARTS
from tests.conftest import CONF
from tests.data.fetch.published import sts_files

pytestmark = pytest.mark.slow  # each composes the experiments


def stocks(root: Path, records: dict[str, Record] | None = None) -> dict[str, Stock]:
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
    assert {name: (stock.state, stock.found) for name, stock in found.items()} == {
        "sts": ("complete", 31_099),
        "triplets": ("other data", 1),
        "pairs": ("other data", 1),
        "wiki": ("unreadable", None),
        "transfer": ("incomplete", None),
        "probing": ("missing", 0),
    }
    assert found["triplets"].note == "nli/nli_triplets.csv is read instead"
    assert found["transfer"].note.startswith("1 of 15 files")
    assert found["pairs"].published == 942_069
    record = Record("2026-01-01", [FetchedFile("snli", "a/b", "c", "d", "e", 1)], {}, {"rows": 1})
    assert stocks(tmp_path, {"pairs": record})["pairs"].state == "complete"  # empty sentences were dropped


def test_the_real_data(data_root: str) -> None:
    found = stocks(Path(data_root))
    assert (found["sts"].state, found["transfer"].state) == ("complete", "complete")
    assert found["triplets"].found == 59_278


def test_data_of_the_experiments(config: Callable[..., DictConfig]) -> None:
    """As Hydra composes them."""
    found = experiment_data()
    for staged in ("pcc", "minilm_eol"):
        assert found.pop(staged) == {"nli_triplets", "sts"}
    assert found.pop("minilm_distilled") == {"nli_pairs", "sts"}
    targets = {
        path.stem: yaml.safe_load(path.read_text())["_target_"] for path in (CONF / "data").glob("*.yaml")
    }
    for name, (data, *others) in ((name, sorted(data)) for name, data in found.items()):
        assert not others
        assert config(f"experiment={name}").data._target_ == targets[data]


def test_every_data_set_of_published_files_is_listed() -> None:
    with_root = [path.stem for path in (CONF / "data").glob("*.yaml") if "\nroot:" in path.read_text()]
    assert {f"data={name}" for name in with_root} <= set(NEEDS)
    assert {part for parts in NEEDS.values() for part in parts} == set(PARTS)


def test_needed_by() -> None:
    assert needed_by("wiki")[0] == ["data=sentences"]
    assert "promptbert" in needed_by("wiki")[1]
    assert needed_by("probing") == (["suite=probing"], [])
