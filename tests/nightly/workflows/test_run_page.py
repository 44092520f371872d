"""The page of a run, parsed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.run_entries import SHORT, train_py
from tests.unit.workflows.test_run_page import Texts


@pytest.mark.usefixtures("keeps_state")
def test_each_run_has_one_and_a_repeated_report_draws_it_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_py(run, *SHORT)
    page = Texts(run / "report.html")
    assert {"Scores", "Plots", "Largest disagreements", "Cost"} <= set(page.headings)
    (run / "report.html").unlink()
    (run / "metrics.json").unlink()  # as if it had been killed in its report
    train_py(tmp_path / "x", f"resume={run}")
    assert Texts(run / "report.html").headings == page.headings
