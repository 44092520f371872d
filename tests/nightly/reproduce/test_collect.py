"""Tables of hand-written runs."""

from __future__ import annotations

from pathlib import Path

from sts_lightning.reproduce.collect import collect
from sts_lightning.reproduce.plan import Cell, Table
from sts_lightning.reproduce.spec import Search
from sts_lightning.reproduce.tables import markdown
from tests.unit.reproduce.conftest import spec


def test_errors_of_a_search_are_in_the_notes(tmp_path: Path) -> None:
    searched = spec()
    searched.search = Search({"low": ["optim.lr=1e-9"], "high": ["optim.lr=1e-3"]})
    table = Table(searched, tmp_path)
    for run in table.search_runs(Cell("plain", "minilm")).values():
        run.folder.mkdir()
        run.run_folder.metrics_file.write_text("{")
    text = markdown(collect(table, 50))
    broken = next(iter(table.search_runs(Cell("plain", "minilm")).values())).run_folder.metrics_file
    assert text.count(f"Left out: {broken} is broken: Expecting") == 1
