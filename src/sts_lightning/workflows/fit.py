"""Training itself: what is said before it, the steps, and what stops them."""

from __future__ import annotations

import copy
import logging
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from datasets import Dataset
from hydra.core.hydra_config import HydraConfig
from lightning.pytorch.loggers import Logger, MLFlowLogger, TensorBoardLogger
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.identity import SHOWN, leaves, select
from sts_lightning.config.machine import decided
from sts_lightning.core.conf_folders import files_of
from sts_lightning.core.errors import TrainingError
from sts_lightning.core.files import write_atomic
from sts_lightning.data.tables import PART, values_of
from sts_lightning.data.tasks import texts_in
from sts_lightning.evaluation.dev_scores import monitor_of
from sts_lightning.evaluation.score import Scores, report_truncation, score
from sts_lightning.models.compute.inference import is_out_of_memory
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import peak_memory
from sts_lightning.runs.state import begin_again
from sts_lightning.training.callbacks.history import HistoryLogger
from sts_lightning.training.micro_batch_search import REMEDY
from sts_lightning.workflows.build import Experiment
from sts_lightning.workflows.checks import check_monitors, losses_by_part

log = logging.getLogger(__name__)

PUBLISHED = {"nli_triplets": "pcc_stage1", "sts": "pcc", "sentences": "cse_sfp"}
"""Experiments that are the published recipes of ``conf/cell``, by data."""

NOT_DETERMINISTIC = "does not have a deterministic implementation"
"""Part of PyTorch's message about an operation under ``trainer.deterministic=true``."""


def fit(experiment: Experiment) -> tuple[Scores | None, dict[str, int]]:
    """Train, from the beginning or from the last checkpoint.

    Returns:
        Scores before training, if they were asked for, and the peak memory of training; see `peak_memory`.

    Raises:
        TrainingError: The loss is not finite, or memory ran out.
    """
    parts, module, trainer = experiment.parts, experiment.module, experiment.trainer
    _begin(experiment)
    untuned: Scores | None = None
    if (
        parts.cfg.evaluation.untuned or parts.data.keep_general
    ) and parts.first:  # of a resumed run, before its weights are loaded
        encoder = copy.deepcopy(module.encoder).to(trainer.strategy.root_device)  # the report's precision
        untuned = score(encoder, parts.data, parts.cfg.evaluation)
        del encoder
    if parts.resumed:
        step = _continue_history(parts.loggers, parts.run)
        log.info("resuming after step %d", step)
    else:
        trainer.validate(module, parts.data, verbose=False)
        check_monitors(parts.cfg, parts.callbacks, trainer.callback_metrics)
        if parts.first and isinstance(parts.data.dev, Dataset):
            before = float(trainer.callback_metrics[monitor_of(parts.data.dev)])
            warn_of_distances(before, len(parts.data.dev))
    last = str(parts.run.checkpoint("last")) if parts.resumed else None
    try:
        trainer.fit(module, parts.data, ckpt_path=last, weights_only=True)
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise TrainingError(f"memory ran out at step {trainer.global_step + 1}. {REMEDY}") from error
        if NOT_DETERMINISTIC in str(error):
            raise TrainingError(
                f"{str(error).partition('.')[0]}, so the run could not be repeated exactly.",
                key="trainer.deterministic",
                hint="trainer.deterministic=warn trains it; the same seed then gives other numbers.",
            ) from error
        raise
    peak = peak_memory()  # before the selected weights are scored
    if "cuda" in peak:
        peak["cuda"] = max(peak["cuda"], module.steps_peak)
    return untuned, peak


def _begin(experiment: Experiment) -> None:
    """Write the configuration, and say what is about to be trained."""
    parts, steps = experiment.parts, experiment.steps
    if parts.first:
        parts.run.remove_temporaries()
        if parts.run.state == "started":
            begin_again(parts.run)
        files = None if parts.resumed else parts.data.digest_files()
        parts.run.save_config(decided(parts.cfg, parts.machine), files)
        if not parts.resumed:
            log_settings(parts.loggers, decided(parts.cfg, parts.machine))
            for logger in parts.loggers:
                if isinstance(logger, MLFlowLogger):
                    write_atomic(parts.run.mlflow_run, str(logger.run_id))
        texts = texts_in(parts.data.dev, parts.data.tests)
        report_truncation(experiment.module.encoder, texts, parts.data.train)
        _warn_of_equal_labels(experiment)
    rows, drawn = len(parts.data.train), parts.data.epoch_rows
    whole = steps.epoch_steps == parts.data.train_dataloader().whole_epoch
    alone = sum(part.drops_one for part in parts.data.rows.values()) if whole else 0
    if parts.machine.reasons:
        log.info("machine: %s", "; ".join(parts.machine.reasons))
    if (named := published_experiment()) is not None:
        log.info(
            "not the published recipe (batch size, epochs and warm-up are its, length, text and the loss's "
            "settings are not): use experiment=%s",
            named,
        )
    log.info(
        "%s%s%s, %d steps of batch %s, dev evaluation every %d steps; run folder %s",
        f"{rows:,} examples",
        "" if rows == drawn else f", {drawn:,} in an epoch",
        f", {alone} of them left out of each epoch" if alone else "",
        steps.total_steps,
        " or ".join(str(size) for size in dict.fromkeys(parts.data.batch_sizes.values())),
        steps.val_steps,
        parts.run.name,
    )
    if steps.shortened:
        trainer = parts.cfg.trainer
        log.info(
            "trainer.max_epochs=%d ends the run before trainer.max_steps=%d; trainer.max_epochs=null lets "
            "it reach them",
            trainer.max_epochs,
            trainer.max_steps,
        )
    if (count := experiment.trainer.world_size) > 1:
        log.info("%d processes; training begins once all of them have started", count)


def published_experiment() -> str | None:
    """Return the experiment whose published cell the command took without naming it; None if it took none.

    Hydra alone knows the choices: outside a job, and where an experiment is chosen, it is None too.
    """
    choices = HydraConfig.get().runtime.choices if HydraConfig.initialized() else {}
    recipe, _, cell = str(choices.get("cell")).partition("/")
    if choices.get("experiment") or cell not in files_of(f"cell/{recipe}"):
        return None
    return PUBLISHED.get(choices["data"])


def warn_of_distances(spearman: float, pairs: int) -> None:
    """Warn of dev scores that the model before training ranks in reverse, beyond chance.

    The standard error of a correlation of nothing is 1 / sqrt(N - 1). Even a model with random weights ranks
    pairs with common words above others.

    Args:
        spearman: Its Spearman times 100.
        pairs: Number N of dev pairs.
    """
    if spearman < -30 and spearman / 100 * math.sqrt(pairs - 1) < -2.5:
        log.warning(
            "WARNING: the dev Spearman before training is %.2f: the scores seem to be distances (0 is the "
            "same meaning), or in reverse order. A higher score has to mean more similar; turn them round in "
            "the file, as the highest score less each of them.",
            spearman,
        )


def _warn_of_equal_labels(experiment: Experiment) -> None:
    """Warn of batches of the first epoch whose labels are all equal, where the loss compares them."""
    data, batches = experiment.parts.data, None
    for name, loss in losses_by_part(experiment.module.loss, data).items():
        if not loss.compares:
            continue
        if batches is None:
            batches = data.train_dataloader().first_epoch()[: experiment.steps.total_steps]
            labels = np.asarray(values_of(data.train, "label"), dtype=np.float64)
            parts = values_of(data.train, PART) if name else [""] * len(labels)
        of_part = [rows for rows in batches if parts[rows[0]] == name]
        equal = sum(np.ptp(labels[rows]) == 0 for rows in of_part)
        noun = "scores" if data.parts[name].label == "score" else "classes"
        if equal:
            log.warning(
                "WARNING: in %d of %d batches of the first epoch all %s are equal, and %s does not train on "
                "them; a larger data.batch_size%s avoids it.",
                equal,
                len(of_part),
                noun,
                type(loss).__name__,
                ", or loss=cosine_mse," if noun == "scores" else "",
            )


def log_settings(loggers: Sequence[Logger], cfg: DictConfig) -> None:
    """Give the loggers the settings of a run by dotted key, without folders of the machine."""
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    settings = {  # a key may be a pattern of files, and MLflow takes no other characters
        re.sub(r"[^\w./: -]", "_", key): value if isinstance(value, bool | int | float | str) else str(value)
        for key, value in select(leaves(plain), SHOWN).items()
    }
    for logger in loggers:
        logger.log_hyperparams(settings)


def _continue_history(loggers: Sequence[Logger], run: RunFolder) -> int:
    """Let the loggers of a resumed run go on after its last checkpoint; return the step of that."""
    step: int = run.read_checkpoint("last")["global_step"]
    for logger in loggers:
        if isinstance(logger, HistoryLogger):
            logger.continue_from(step)
        elif isinstance(logger, TensorBoardLogger):
            # For the writer that Lightning makes at the first use: later rows of the first part are hidden.
            logger._kwargs["purge_step"] = step + 1
        elif isinstance(logger, MLFlowLogger) and run.mlflow_run.is_file():
            logger._run_id = run.mlflow_run.read_text()
    return step
