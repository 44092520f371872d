"""What the loggers of a run get besides its metrics: settings, history so far, final scores and plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lightning.pytorch.loggers import Logger, TensorBoardLogger, WandbLogger
from matplotlib.image import imread
from omegaconf import DictConfig, OmegaConf

from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.state import defining_leaves
from sts_lightning.training.history import HistoryLogger

FINAL, PLOTS = "final/", "plots/"
"""Beginnings of the names of final scores and of plots."""

HP_METRIC = "hp_metric"
"""Score that Lightning's logger declares for TensorBoard's table of runs; -1 until the run has finished."""


def log_settings(loggers: Sequence[Logger], cfg: DictConfig) -> None:
    """Give the loggers the settings of a run by dotted key, without folders of the machine.

    Args:
        loggers: Loggers of the run.
        cfg: Configuration without interpolations.
    """
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    settings = {
        key: value if isinstance(value, bool | int | float | str) else str(value)
        for key, value in defining_leaves(plain).items()
    }
    for logger in loggers:
        logger.log_hyperparams(settings)


def continue_history(loggers: Sequence[Logger], run: RunFolder) -> int:
    """Let the loggers of a resumed run go on after its last checkpoint; return the step of that.

    Args:
        loggers: Loggers of the run.
        run: Run folder.
    """
    step: int = run.read_checkpoint("last")["global_step"]
    for logger in loggers:
        if isinstance(logger, HistoryLogger):
            logger.continue_from(step)
        elif isinstance(logger, TensorBoardLogger):
            # For the writer that Lightning makes at the first use: later rows of the first part are hidden.
            logger._kwargs["purge_step"] = step + 1
    return step


def log_results(loggers: Sequence[Logger], run: RunFolder, metrics: RunMetrics, step: int) -> None:
    """Give the loggers the final scores and the plots of a run; the history of the run gets neither.

    Args:
        loggers: Loggers of the run.
        run: Run folder with the plots.
        metrics: Results of the run.
        step: Last step.
    """
    scores = {f"{FINAL}{name}": value for name, value in metrics.scores.items()}
    plots = sorted(run.plots.glob("*.png"))
    for logger in loggers:
        if isinstance(logger, HistoryLogger):
            continue
        if isinstance(logger, TensorBoardLogger):
            logger.log_metrics({**scores, HP_METRIC: metrics.score}, step)
            for path in plots:
                logger.experiment.add_image(f"{PLOTS}{path.stem}", imread(path), step, dataformats="HWC")
        else:
            logger.log_metrics(scores, step)
        if isinstance(logger, WandbLogger):
            for path in plots:
                logger.log_image(f"{PLOTS}{path.stem}", [str(path)], step)
        logger.finalize("success")
