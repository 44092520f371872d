"""Running a table, in the order of its dependencies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from sts_lightning.errors import CheckpointError, FailedJobsError, RunningElsewhereError
from sts_lightning.reproduce.plan import Planned, Table
from sts_lightning.runs.folder import RunFolder
from sts_lightning.sweep.job import Job

log = logging.getLogger(__name__)

RunJobs = Callable[[Sequence[Job]], None]
"""Function that runs jobs and stores the outcome in each; raises `FailedJobsError` if some failed."""


def run_table(table: Table, run_jobs: RunJobs) -> bool:
    """Run what has not finished yet; an interrupted run resumes from its last checkpoint.

    A failed run is reported at once. Runs that start from it are skipped; the others continue.

    Args:
        table: Planned runs.
        run_jobs: Function that runs jobs, such as that of a launcher.

    Returns:
        Whether all runs have finished.
    """
    finished = []
    for group, skipped in groups(table):  # all groups, even if one fails
        for reason in skipped:
            log.error("%s", reason)
        finished.append(_run_group(group, run_jobs))
    return all(finished)


def groups(table: Table) -> Iterator[tuple[list[Planned], list[str]]]:
    """Yield the runs in groups, each planned once the earlier ones have run.

    With them come the reasons why rows are skipped: the search that chooses for them has not finished.
    """
    yield table.preparations(), []
    for cells in table.levels():
        yield [run for cell in cells for run in table.search_runs(cell).values()], []
        runs, skipped = [], []
        for cell in cells:
            try:
                runs += table.seed_runs(cell)
            except CheckpointError as error:
                skipped.append(f"{cell.row} is skipped: {error}")
        yield runs, skipped


def _run_group(planned: Iterable[Planned], run_jobs: RunJobs) -> bool:
    runs = list({run.folder: run for run in planned if not run.done}.values())
    ready = [run for run in runs if run.after is None or RunFolder(run.after).finished]
    for run in runs:
        if run not in ready:
            log.error("skipped: %s, since %s has not finished", " ".join(run.overrides), run.after)
    if not ready:
        return not runs
    try:
        run_jobs([run.job(number) for number, run in enumerate(ready)])
    except (FailedJobsError, RunningElsewhereError) as error:
        log.error("%s", error)
        return False
    return all(run.done for run in runs)
