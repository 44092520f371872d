"""The runs of a table, carried out in an order in which each finds what it starts from."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from sts_lightning.errors import CheckpointError, FailedJobsError
from sts_lightning.reproduce.plan import Planned, Table
from sts_lightning.runs.folder import RunFolder
from sts_lightning.sweep.job import Job

log = logging.getLogger(__name__)

CarryOut = Callable[[Sequence[Job]], None]
"""Runs jobs, and puts into each what became of it; it raises `FailedJobsError` if some failed."""


def run_table(table: Table, carry_out: CarryOut) -> bool:
    """Run what has not finished yet; a run that was cut goes on from its last checkpoint.

    A run that fails is reported at once and leaves out those that start from it; the others go on.

    Args:
        table: Its runs.
        carry_out: Where they run, and how many at a time.

    Returns:
        Whether all runs have finished.
    """
    finished = [_carry_out(group, carry_out) for group in groups(table)]  # all groups, whatever fails
    return all(finished)


def groups(table: Table) -> Iterator[list[Planned]]:
    """The runs in groups, each planned when those before it are through."""
    yield table.preparations()
    for cells in table.levels():
        yield [run for cell in cells for run in table.searches(cell).values()]
        runs = []
        for cell in cells:
            try:
                runs += table.seeds(cell)
            except CheckpointError as error:
                log.error("%s is left out: %s", cell.row, error)
        yield runs


def _carry_out(planned: Iterable[Planned], carry_out: CarryOut) -> bool:
    runs = list({run.folder: run for run in planned if not run.done}.values())
    ready = [run for run in runs if run.after is None or RunFolder(run.after).metrics_file.is_file()]
    for run in runs:
        if run not in ready:
            log.error("left out: %s, since %s has not finished", " ".join(run.overrides), run.after)
    if not ready:
        return not runs
    try:
        carry_out([run.job(number) for number, run in enumerate(ready)])
    except FailedJobsError as error:
        log.error("%s", error)
        return False
    return all(run.done for run in runs)
