"""Evaluation of a model or a run on a suite of tasks."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from sts_lightning.choices import Precision
from sts_lightning.config.trust import Trust
from sts_lightning.config.validate import check_config
from sts_lightning.console import print_scores
from sts_lightning.errors import ConfigError
from sts_lightning.evaluation.suites import UnitVectors, open_suite
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading import build_encoder, load_from, with_quantization
from sts_lightning.runs.environment import environment
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import locked
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.state import check_free, check_same

log = logging.getLogger(__name__)


def evaluate(cfg: DictConfig) -> float:
    """Evaluate as a Hydra job, and return the average score times 100."""
    folder = Path(HydraConfig.get().runtime.output_dir)
    try:
        return evaluate_in(folder, cfg)
    finally:
        RunFolder(folder).remove_if_empty()


def evaluate_in(folder: Path, cfg: DictConfig) -> float:
    """Evaluate, and write configuration and metrics to a folder.

    Args:
        folder: Folder of the results.
        cfg: A composed configuration of the schema `EvalConfig`.

    Returns:
        The average score times 100: Spearman's correlation, accuracy, or MTEB's main scores.

    Raises:
        RunningElsewhereError: Another process is running in the folder.
        FinishedRunError: The folder holds results, which would be overwritten.
        UserError: Configuration, data or run folder cannot be used.
    """
    with locked(folder):
        return _evaluate_in(folder, cfg)


def _evaluate_in(folder: Path, cfg: DictConfig) -> float:
    started = time.monotonic()
    state = check_free(RunFolder(folder))
    cfg = check_config(cfg)
    if state == "started":
        check_same(RunFolder(folder), cfg)
    device = _device(cfg.accelerator)
    score = open_suite(cfg)
    encoder, precision = _load_encoder(cfg, str(device))
    encoder = encoder.to(device).set_precision(precision).eval()
    result, row = score(UnitVectors(encoder) if cfg.normalize else encoder, folder)
    RunFolder(folder).save_config(cfg)
    details = {
        "suite": cfg.suite,
        "ckpt": cfg.ckpt,
        "step": cfg.step,
        "precision": precision,
        "text_edit": encoder.text_edit,
        "normalize": cfg.normalize,
        "wall_seconds": round(time.monotonic() - started, 1),
        **environment(),
    }
    RunFolder(folder).save_metrics(RunMetrics(result, details=details))
    name = cfg.ckpt if cfg.ckpt is not None else cfg.model.get("name", cfg.model["_target_"])
    what = {
        "sts": f"Spearman x 100 (aggregate={cfg.aggregate}, ",
        "rank": "Energy rank of the test sentences' vectors (99 % of the squared singular values, ",
        "transfer": f"Accuracy x 100 (logistic regression, {cfg.folds} folds, ",
        "probing": "Accuracy x 100 (logistic regression, ",
        "relatedness": "Correlation x 100 (regression on frozen vectors, ",
        "mteb": "MTEB's main scores x 100 (",
    }[cfg.suite]
    title = f"{what}{precision}, text_edit={encoder.text_edit})"
    print_scores(title, {Path(name.partition("@")[0]).name: row})
    log.info("all scores: %s", RunFolder(RunFolder(folder).metrics_file).name)
    return float(result["average"])


def _load_encoder(cfg: DictConfig, device: str) -> tuple[SentenceEncoder, Precision]:
    if cfg.ckpt is None:
        if cfg.step is not None:
            raise ConfigError("step names kept weights of a run; ckpt=... names the run.", key="step")
        model = with_quantization(cfg.model, cfg.quantization)
        if model.get("adapter") is not None:
            model.adapter = None  # not trained, it adds nothing
        encoder = build_encoder(model, cfg.prompt, device)
        precision = cfg.precision or encoder.precision
    else:
        run = Path(cfg.ckpt)
        config = RunFolder(run).load_config(Trust.of(cfg.trust, cfg.trust_remote_code))
        config.model = with_quantization(config.model, cfg.quantization)
        encoder = load_from(RunFolder(run), config, device, cfg.step)
        precision = cfg.precision or config.evaluation.precision or encoder.precision
    if cfg.text_edit is not None:
        encoder.text_edit = cfg.text_edit
    return encoder, precision


def _device(accelerator: str) -> torch.device:
    if accelerator == "gpu" and not torch.cuda.is_available():
        raise ConfigError("accelerator=gpu, but no CUDA device is visible; use accelerator=cpu.")
    return torch.device("cuda" if accelerator != "cpu" and torch.cuda.is_available() else "cpu")
