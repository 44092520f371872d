"""Stages that several jobs of a sweep share, as jobs of their own, which go first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from omegaconf import DictConfig

from sts_lightning.config.stages import share_stages
from sts_lightning.sweep.job import Job
from sts_lightning.sweep.resources import demand_of, largest


class SharedStages:
    """The shared stages of a sweep, each once.

    A job of its own trains each, so that no other job waits for it on a GPU. Each of these jobs comes after
    those that it needs.

    Attributes:
        jobs: Jobs of the stages, by folder.
        configs: Configurations of the stages, by folder.
    """

    def __init__(self) -> None:
        self.jobs: dict[Path, Job] = {}
        self.configs: dict[Path, DictConfig] = {}

    def add(self, job: Job, stages: Mapping[str, DictConfig], share: bool = True) -> dict[str, DictConfig]:
        """Plan the stages of a job; the job learns what it needs.

        A job that has begun with stages of its own keeps them.

        Args:
            job: Job of the sweep, updated in place.
            stages: Configurations of its stages by name, in order; see `share_stages`.
            share: Whether other jobs may share them.

        Returns:
            Configurations of the stages that the job runs itself.
        """
        shared = share_stages(stages) if share else {}
        run = job.run_folder
        folders = {name: run.shared_stage(folder).path for name, folder in shared.items()}
        if run.has_stages and run.state != "started":
            begun = {stage.path for stage in run.stages()}
            folders = {name: path for name, path in folders.items() if path in begun}
        own = {name: cfg for name, cfg in stages.items() if name not in folders}
        job.demand = largest(demand_of(cfg) for cfg in own.values())
        job.added = (*job.added, "--share-stages" if share else "--no-share-stages")
        if not run.finished:
            for name, path in folders.items():
                self._need(job, name, path, stages[name])
        return own

    def _need(self, job: Job, name: str, path: Path, cfg: DictConfig) -> None:
        stage = self.jobs.get(path)
        if stage is None:
            stage = Job(job.number, job.overrides, path, demand_of(cfg), job.script)
            stage.stage, stage.needs = name, job.needs
            stage.added = (*job.added, "--stage", name)
            stage.shown = job.overrides
            self.jobs[path], self.configs[path] = stage, cfg
        stage.shown = tuple(text for text in stage.shown or () if text in job.overrides)
        job.needs = (*job.needs, path)
