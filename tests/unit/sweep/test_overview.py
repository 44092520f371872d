"""Progress of a sweep."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest
from rich.console import Console

from sts_lightning.sweep.overview import overview, overview_table
from tests.unit.sweep.conftest import jobs


def test_overview_counts(tmp_path: Path) -> None:
    planned = jobs(tmp_path, "one", "two", "three", "four")
    planned[0].state, planned[0].score, planned[0].seconds = "done", 50.0, 120.0
    planned[1].state = "running"
    assert overview_table(planned, 1).title == (
        "1 of 4 done, 2 queued, 1 running, about 5 minutes left, best 50.00"
    )
    assert ", about 2 minutes left, " in str(overview_table(planned, 2).title)  # two at a time
    for job in planned:
        job.state = "was done"
    assert overview_table(planned, 1).title == "4 of 4 done, best 50.00"


def test_the_best_score_is_one_of_equal_pairs(tmp_path: Path) -> None:
    planned = jobs(tmp_path, "one", "two", "three")
    for job, pairs in zip(planned, ("a", "a", None), strict=True):
        job.state, job.score, job.pairs = "done", 50.0, pairs
    assert overview_table(planned, 1).title == "3 of 3 done, best 50.00"
    planned[1].pairs = "b"
    assert overview_table(planned, 1).title == "3 of 3 done"


def test_a_list_in_a_setting_is_no_markup(tmp_path: Path) -> None:
    planned = jobs(tmp_path, "one")
    planned[0].overrides = ("path=[a.csv,b.csv]",)
    console = Console(file=io.StringIO(), width=200)
    console.print(overview_table(planned, 1))
    assert "path=[a.csv,b.csv]" in console.file.getvalue()  # type: ignore[attr-defined]  # as given


def test_one_job_is_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    planned = jobs(tmp_path, "one", "two")
    with caplog.at_level(logging.INFO):
        with overview(planned[:1], 1):
            pass
        with overview(planned, 2):
            pass
    assert caplog.messages == ["1 job, 1 at a time", "2 jobs, 2 at a time"]
