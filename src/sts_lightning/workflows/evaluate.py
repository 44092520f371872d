"""Evaluation of a model or a run on a suite of tasks."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from sts_lightning.config.build import to_container
from sts_lightning.config.check import check_config, suggest
from sts_lightning.config.compose import composing
from sts_lightning.config.folders import files_of
from sts_lightning.config.identity import file_digests
from sts_lightning.core.choices import Precision
from sts_lightning.core.console import print_scores
from sts_lightning.core.errors import CheckpointError, ConfigError, at_setting
from sts_lightning.core.files import last_name
from sts_lightning.core.hardware import choose_accelerator, disable_cuda, multiplies_bfloat16, with_dtype
from sts_lightning.evaluation.encoding import Encoder
from sts_lightning.evaluation.retrieval import print_rankings
from sts_lightning.evaluation.score import title_of_table
from sts_lightning.evaluation.suites import UnitVectors, open_suite
from sts_lightning.evaluation.unseen_text import report_truncation, report_unseen
from sts_lightning.evaluation.vector_cache import CachedVectors, fingerprint
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.run import (
    build_encoder,
    load,
    set_evaluation_text,
    usual_precision,
    with_quantization,
)
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import locked
from sts_lightning.runs.metrics import UNKNOWN, RunMetrics, origin
from sts_lightning.runs.state import check_same, report_finished

log = logging.getLogger(__name__)

OF_MODEL = re.compile(r"[+~]*((model|prompt)(\.[^=]*)?)(=|$)")
"""Overrides of what a run decides."""


def evaluate(cfg: DictConfig) -> float:
    """Evaluate as a Hydra job, and return the average score times 100."""
    hydra = HydraConfig.get()
    check_overrides(cfg, hydra.overrides.task)
    return evaluate_in(Path(hydra.runtime.output_dir), cfg)


def check_overrides(cfg: DictConfig, overrides: Sequence[str]) -> None:
    """Reject settings of the model beside a run, which brings its model.

    Args:
        cfg: A composed configuration of the schema `EvalConfig`.
        overrides: What the command line sets.

    Raises:
        ConfigError: The command line has a run and such a setting.
    """
    for override in overrides if cfg.ckpt is not None else ():
        if match := OF_MODEL.match(override):
            raise ConfigError(
                f"{override} has no effect: ckpt={cfg.ckpt} has its own model and prompt.",
                key=match[1],
                hint="Leave it out; max_length, text_edit, precision and quantization can be set.",
            )


def evaluate_in(folder: Path, cfg: DictConfig) -> float:
    """Evaluate, and write configuration and metrics to a folder.

    Args:
        folder: Folder of the results.
        cfg: A composed configuration of the schema `EvalConfig`.

    Returns:
        The average score times 100: Spearman's correlation, accuracy, or MTEB's main scores.

    Raises:
        RunningElsewhereError: Another process is running in the folder.
        UserError: Configuration, data or run folder cannot be used.
    """
    started, output = time.monotonic(), RunFolder(folder)
    with locked(folder):
        cfg = check_config(cfg)
        check_same(output, cfg)
        if output.finished:
            return report_finished(output)
        device = encoding_device(cfg.accelerator)
        if device == "cpu":
            disable_cuda()
        text: Any = "raw"
        known = RunMetrics(None, details={"training": None, "trained_on": []})
        if cfg.ckpt is not None:
            with at_setting("ckpt"):
                text = RunFolder(cfg.ckpt).settings().get("senteval_text", "raw")
            known = RunFolder(cfg.ckpt).known_metrics()
        files = file_digests(to_container(cfg))
        suite = open_suite(cfg, cfg.senteval_text or text)
        encoder = load_evaluated(cfg, device)
        if max(cfg.dims, default=0) > encoder.dimension:  # would be scored as the whole vector
            raise ConfigError(f"dims={cfg.dims}: a vector has {encoder.dimension} values.", key="dims")
        if suite.tables:
            report_truncation(encoder, suite.tables)
        reader: Encoder = encoder if cfg.cache_dir is None else cached_vectors(encoder, cfg.cache_dir)
        result, row = suite.score(UnitVectors(reader) if cfg.normalize else reader, folder)
        looked_up = 0
        if isinstance(reader, CachedVectors):
            looked_up = reader.looked_up
            log.info("%d vectors from %s, %d encoded", looked_up, reader.folder, reader.encoded)
        output.save_config(cfg)
        details = {
            "suite": cfg.suite,
            "ckpt": cfg.ckpt,
            "step": cfg.step,
            "precision": encoder.precision,
            "quantization": cfg.quantization or (encoder.base.quantization if encoder.base else "none"),
            "training": known.details.get("training", {}),
            **({} if cfg.ckpt is None else {"seed": known.details.get("seed", UNKNOWN)}),
            **encoder.evaluation_text,
            "senteval_text": suite.text,
            "content": {"tests": dict(suite.hashes), "files": files},
            "normalize": cfg.normalize,
            "vectors_from_cache": looked_up,
            **origin(known.trained_on, time.monotonic() - started),
        }
        if "rank" in result:  # beside the scores, where the report of a training has it
            details["rank"] = result.pop("rank")
            log.info("rank: %.1f", details["rank"]["average"])
        metrics = RunMetrics(result, details=details)
        output.save_metrics(metrics)
        _print_results(cfg, metrics, row, title_of_table(encoder, suite.text, *suite.title))
        log.info("all scores: %s", RunFolder(output.metrics_file).name)
        return metrics.score


def _print_results(cfg: DictConfig, metrics: RunMetrics, row: dict[str, float], title: str) -> None:
    name = last_name(cfg.ckpt or cfg.model.get("name") or cfg.model.get("path") or cfg.model["_target_"])
    deployed = (metrics.test or {}).get("deployed")
    if metrics.rankings:
        log.info("%s", name)
        print_rankings(metrics.rankings)
    elif deployed:
        rows = {f"{key} ({each['bytes']} B)": each["scores"] for key, each in deployed.items()}
        print_scores(f"{name}: {title}", rows)
    else:
        print_scores(title, {name: row})


def cached_vectors(encoder: SentenceEncoder, cache_dir: str) -> CachedVectors:
    """Return an encoder that keeps vectors in a folder, below which each model has its own."""
    with at_setting("cache_dir"):
        return CachedVectors(encoder, Path(cache_dir) / fingerprint(encoder)[:16])


def encoding_device(accelerator: str, key: str = "accelerator") -> str:
    """Return the device that encodes; of several GPUs the first visible one.

    Args:
        accelerator: See `choose_accelerator`.
        key: Setting that it comes from.
    """
    chosen = choose_accelerator(accelerator, key)
    return chosen if chosen in ("cpu", "mps") else "cuda:0"


def load_named(
    source: str, texts: Sequence[Sequence[str]], trust_remote_code: bool = False, accelerator: str = "auto"
) -> SentenceEncoder:
    """Load the encoder that a user names on the command line to where it encodes, see `encoding_device`.

    Args:
        source: What `load` reads, or a choice of the configuration group ``model``, unless there is a folder
            of that name.
        texts: Columns of texts to encode; what the encoder does not see of them is logged.
        trust_remote_code: See `load`.
        accelerator: Value of ``--device``.

    Raises:
        UserError: There is nothing of that name, or it cannot be loaded.
    """
    device = encoding_device(accelerator, "--device")
    if Path(source).exists() or "/" in source:
        encoder = load(source, trust_remote_code=trust_remote_code, device=device)
    elif source in (models := files_of("model")):
        with composing():
            cfg = compose("eval", [f"model={source}"])
        encoder = load_evaluated(check_config(cfg), device)
    else:
        raise CheckpointError(
            f"{source} is neither a folder here nor a choice of model=. {suggest(source, models)}".strip(),
            hint="Ids of the model hub have the form owner/name.",
        )
    encoder.to(device)
    report_unseen(encoder, [("texts", texts, encoder.tokenizer.lengths.eval)])
    return encoder


def load_evaluated(cfg: DictConfig, device: str) -> SentenceEncoder:
    """Load the encoder on a device, in the precision and with the text settings of the evaluation.

    Args:
        cfg: Configuration of the schema `EvalConfig`.
        device: Name of the device.

    Raises:
        UserError: Configuration, run folder or model cannot be used.
    """
    if cfg.ckpt is None:
        encoder = _load_model(cfg, device)
    else:
        with at_setting("ckpt"):
            encoder = load(cfg.ckpt, cfg.step, quantization=cfg.quantization, device=device)
        if cfg.text_edit is not None:
            encoder.set_evaluation(cfg.text_edit, encoder.tokenizer.lengths.eval)
        if cfg.max_length is not None:
            set_evaluation_text(encoder, encoder.config.text_edit, cfg.max_length, "max_length")
    encoder.to(device).eval()
    if cfg.precision == "auto":
        return use_fastest_precision(encoder)
    return encoder.set_precision(cfg.precision or encoder.precision)


def use_fastest_precision(encoder: SentenceEncoder) -> SentenceEncoder:
    """Convert an encoder, in place, to bfloat16 where its device multiplies it natively, else to float32.

    Quantised weights stay as they are, and so does what surrounds them unless its products are slow here.
    """
    if getattr(encoder.plain_backbone, "is_quantized", False):
        return encoder.set_precision(usual_precision(encoder, encoder.device.type))
    return encoder.set_precision(_fastest(str(encoder.device)))


def _fastest(device: str) -> Precision:
    return "bf16-true" if multiplies_bfloat16(device) else "32-true"


def _load_model(cfg: DictConfig, device: str) -> SentenceEncoder:
    if cfg.step is not None:
        raise ConfigError("step names kept weights of a run; ckpt=... names the run.", key="step")
    precision = _fastest(device) if cfg.precision in (None, "auto") else cfg.precision
    model = with_dtype(with_quantization(cfg.model, cfg.quantization), precision)
    if cfg.model.get("dtype") == "auto" and cfg.precision is None:
        natively = "multiplies" if precision == "bf16-true" else "does not multiply"
        log.info("machine: %s (%s %s bfloat16 natively)", precision, device, natively)
    if "adapter" in model:
        model.adapter = None  # not trained, it adds nothing
    encoder = build_encoder(model, cfg.prompt, device)
    return set_evaluation_text(
        encoder, cfg.text_edit or encoder.config.text_edit, cfg.max_length, "max_length"
    )
