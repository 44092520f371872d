from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.errors import ConfigError
from sts_lightning.reproduce.spec import load_spec
from tests.conftest import CONF

SPECS = sorted((CONF / "reproduce").glob("*.yaml"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_spec_reads(path: Path) -> None:
    spec = load_spec(path)
    assert spec.rows
    assert len(set(spec.seeds)) == len(spec.seeds) >= 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title: x\nseeds: [1]\nrows: {a: {}}\nsedes: 3", "sedes"),
        ("title: x\nrows: {a: {}}", "seeds is required"),
        ("title: x\nseeds: [one]\nrows: {a: {}}", "seeds"),
        ("title: x\nseeds: [1]\nrows: {a: {after: b}}", "rows.a.after=b is not among before"),
        ("title: x\nseeds: [1]\nrows: {a: {}}\nbaselines: [c]", "the baseline c is not among rows"),
    ],
)
def test_mistakes_are_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "table.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_spec(path)


def test_an_unknown_table_lists_the_others(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("title: x")
    with pytest.raises(ConfigError, match="there is no table two; there are: one"):
        load_spec(tmp_path / "two.yaml")
