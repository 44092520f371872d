"""Running a table, in the order of its dependencies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from hydra.errors import HydraException
from hydra.utils import instantiate
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.compose import compose_job, explain
from sts_lightning.config.keys import path_override
from sts_lightning.errors import CheckpointError, ConfigError, FailedJobsError, RunningElsewhereError
from sts_lightning.reproduce.plan import Planned, Table
from sts_lightning.runs.folder import RunFolder
from sts_lightning.sweep.job import Job

log = logging.getLogger(__name__)

RunJobs = Callable[[Sequence[Job]], None]
"""Function that runs jobs and stores the outcome in each; raises `FailedJobsError` if some failed."""


def reproduce(table: Table, launcher: str, settings: Sequence[str]) -> bool:
    """Run the remaining runs of a table and return whether all of them have finished.

    Args:
        table: Table to run.
        launcher: See `open_launcher`.
        settings: See `open_launcher`.

    Raises:
        ConfigError: The runs need GPUs and none is visible, or a setting is unknown.
        InterruptedRunError: The user stopped the runs.
    """
    begun = any(run.done for group, _ in groups(table) for run in group)
    if launcher == "process" and table.needs.gpus and not begun:
        import torch  # not needed for a report

        if not torch.cuda.is_available():
            raise ConfigError(
                f"each run of this table needs {table.needs}, and no GPU is visible. --model minilm runs the "
                "same rows at a small scale, and `reproduce plan` in place of `reproduce` shows the runs."
            )
    return run_table(table, open_launcher(table, launcher, settings))


def open_launcher(table: Table, name: str, settings: Sequence[str]) -> RunJobs:
    """Return a function that runs jobs as ``hydra/launcher=name`` does in a sweep.

    Args:
        table: Table whose folder is that of the launcher's own files too.
        name: ``process`` for this machine, ``slurm`` or ``ray``.
        settings: Settings of the launcher, such as ``partition=gpu``.

    Raises:
        ConfigError: The launcher or a setting does not exist.
    """
    overrides = (
        f"hydra/launcher={name}",
        path_override("hydra.sweep.dir", table.root),
        *(f"hydra.launcher.{setting}" for setting in settings),
    )
    try:
        cfg = compose_job("train", overrides)
        launcher: Any = instantiate(cfg.hydra.launcher)
    except (HydraException, OmegaConfBaseException) as error:
        cause = explain(error, "train", overrides)
        raise ConfigError(f"--launcher {name}: {cause}", key=cause.key) from error
    launcher.config = cfg
    run_jobs: RunJobs = launcher.run_jobs
    return run_jobs


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
