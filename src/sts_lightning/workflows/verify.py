"""Checks of a run folder, before anyone builds on it: nothing is written, and no code of the folder runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.conf_folders import command_line
from sts_lightning.config.constraints import check_config, check_target
from sts_lightning.config.keys import flat_keys, path_override
from sts_lightning.config.schema import EvalConfig, TrainConfig
from sts_lightning.config.trust import Trust, check_links, read_config
from sts_lightning.errors import CheckpointError, UserError
from sts_lightning.runs.calibration_file import load_calibration
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.no_run import no_run
from sts_lightning.text import counted
from sts_lightning.training.dev_metrics import MONITOR
from sts_lightning.workflows.verify_scores import check_predictions, encode_again
from sts_lightning.workflows.verify_weights import NotCheckedError, check_fit, check_tensors

Outcome = Literal["ok", "wrong", "not checked"]


@dataclass(frozen=True)
class Check:
    """One check of a run folder.

    Attributes:
        name: What was checked.
        outcome: Result; ``not checked`` where something else is missing, such as the model's own files.
        text: What was found, or what is wrong and what to do.
    """

    name: str
    outcome: Outcome
    text: str


def verify(run: RunFolder, trust: Trust, evaluate: bool = False) -> Iterator[Check]:
    """Check a run, an evaluation, or each stage of a run.

    Args:
        run: The folder.
        trust: Classes and settings that the folder may ask for.
        evaluate: Whether dev and test sentences are encoded again, where data and model are there.

    Yields:
        One check after another.
    """
    if not run.has_stages:
        yield from _Folder(run, trust, evaluate).checks()
        return
    try:
        names = list(run.load_stages(trust))
        stages = run.stages()
    except UserError as error:
        yield Check(run.stages_file.name, "wrong", str(error))
        return
    yield Check(run.stages_file.name, "ok", f"stages {', '.join(names)}")
    for name, stage in zip(names, stages, strict=True):
        for check in _Folder(stage, trust, evaluate).checks():
            yield replace(check, name=f"{name}: {check.name}")


class _Folder:
    """The checks of one folder; later ones use what earlier ones have read."""

    def __init__(self, run: RunFolder, trust: Trust, evaluate: bool) -> None:
        self.run = run
        self.trust = trust
        self.evaluate = evaluate
        self.cfg: DictConfig | None = None
        self.metrics: RunMetrics | None = None
        self.best: dict[str, Any] | None = None

    def checks(self) -> Iterator[Check]:
        """Make all checks that apply to the folder."""
        run = self.run
        yield _made("links", self._links)
        if not run.path.is_dir():
            return
        yield _made(run.config_file.name, self._configuration)
        yield _made(run.metrics_file.name, self._results)
        if self.cfg is not None and "suite" in self.cfg:  # an evaluation has no weights of its own
            return
        yield _made(run.history_file.name, self._history)
        yield _made(f"{run.checkpoints.name}/{run.checkpoint('best').name}", self._best)
        yield _made(f"{run.checkpoints.name}/{run.checkpoint('last').name}", self._last)
        for step in run.kept_steps():
            name = run.checkpoint(step).name
            yield _made(f"{run.checkpoints.name}/{name}", partial(self._kept, step))
        yield _made("weights", self._fit)
        yield _made(run.predictions_file.name, self._predictions)
        if run.calibration_file.is_file():
            yield _made(run.calibration_file.name, self._calibration)
        if self.evaluate:
            yield _made("evaluation", self._encode_again)

    def _links(self) -> str:
        if not self.run.path.is_dir():
            raise CheckpointError(f"{self.run.path} is not a folder.")
        check_links(self.run.path)
        return "no file lies outside the folder"

    def _configuration(self) -> str:
        if not self.run.config_file.is_file():
            raise no_run(self.run.path, self.run.config_file.name)
        cfg = read_config(self.run.config_file, self.trust)
        evaluation = "suite" in cfg
        if not evaluation:
            cfg = self.run.load_config(self.trust)
        try:
            merged = OmegaConf.merge(OmegaConf.structured(EvalConfig if evaluation else TrainConfig), cfg)
        except OmegaConfBaseException as error:
            raise CheckpointError(
                f"{error.full_key}: {str(error).splitlines()[0]}", error.full_key
            ) from error
        assert isinstance(merged, DictConfig)
        added = sorted(set(flat_keys(merged)) - set(flat_keys(cfg)))
        if OmegaConf.missing_keys(merged):  # of an earlier version
            for key, node in cfg.items():
                if isinstance(node, DictConfig) and "_target_" in node:
                    check_target(str(key), node)
        else:
            check_config(merged)
        self.cfg = cfg
        return f"of an earlier version, without {', '.join(added)}" if added else "of this version"

    def _results(self) -> str:
        run = self.run
        if run.state in ("started", "cut"):
            raise CheckpointError(
                "the run has not finished.",
                hint=f"Resume it with: {command_line('train', path_override('resume', run.name))}",
            )
        metrics = run.metrics()
        self.metrics = metrics
        return f"score {metrics.score:.2f}"

    def _history(self) -> str:
        path = self.run.history_file
        if not path.is_file():
            raise CheckpointError(f"{path} does not exist.")
        rows = self.run.history()
        if not path.read_bytes().endswith(b"\n"):
            raise CheckpointError(f"{path} is broken (its last line is cut).")
        steps = [row["step"] for row in rows]
        if not steps or steps != sorted(set(steps)):
            raise CheckpointError(f"{path} is broken: its steps do not ascend.")
        selected = None if self.metrics is None else self.metrics.details.get("best_step")
        scored = [row for row in rows if MONITOR in row]
        if not any(row["step"] for row in scored):
            raise CheckpointError(f"{path} has no dev score of a step.")
        # The model before training counts where it could be selected (trainer.select_untuned).
        dev = {row["step"]: row[MONITOR] for row in scored if row["step"] or selected == 0}
        if selected is not None and dev.get(selected) != max(dev.values()):
            raise CheckpointError(
                f"{path}: the selected step {selected} has dev score {dev.get(selected)}, but the best is "
                f"{max(dev.values())}."
            )
        return f"{counted(len(rows), 'row')} up to step {steps[-1]}"

    def _best(self) -> str:
        self.best = None
        checkpoint = self.run.read_checkpoint("best")
        text = check_tensors(checkpoint, self.run.checkpoint("best"))
        selected = None if self.metrics is None else self.metrics.details.get("best_step")
        if selected is not None and checkpoint.get("global_step") != selected:
            raise CheckpointError(
                f"{self.run.checkpoint('best')} is of step {checkpoint.get('global_step')}, the scores of "
                f"step {selected}."
            )
        self.best = checkpoint
        return text

    def _last(self) -> str:
        return check_tensors(self.run.read_checkpoint("last"), self.run.checkpoint("last"))

    def _kept(self, step: int) -> str:
        checkpoint, path = self.run.read_checkpoint(step), self.run.checkpoint(step)
        if checkpoint.get("global_step") != step:
            raise CheckpointError(f"{path} is of step {checkpoint.get('global_step')}.")
        return check_tensors(checkpoint, path)

    def _fit(self) -> str:
        if self.cfg is None or self.best is None:
            raise NotCheckedError("the configuration or the checkpoint is wrong")
        return check_fit(self.run, self.cfg, self.best)

    def _predictions(self) -> str:
        if self.metrics is None:
            raise NotCheckedError("there are no scores to compare with")
        if self.metrics.test is None:
            return "none, since the run has no test report"
        return check_predictions(self.run, self.metrics.test)

    def _calibration(self) -> str:
        found = load_calibration(self.run.calibration_file, self.run)
        return f"intervals of coverage {found.coverage:g}, for these weights"

    def _encode_again(self) -> str:
        if self.cfg is None or self.best is None or self.metrics is None:
            raise NotCheckedError("the configuration, the checkpoint or the scores are wrong")
        return encode_again(self.run, self.cfg, self.metrics)


def _made(name: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name, "ok", check())
    except NotCheckedError as error:
        return Check(name, "not checked", str(error))
    except UserError as error:
        return Check(name, "wrong", str(error))
