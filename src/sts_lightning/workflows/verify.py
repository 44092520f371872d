"""Checks of a run folder, before anyone builds on it: nothing is written, and no code of the folder runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.check import check_config, path_override
from sts_lightning.config.schema import EvalConfig
from sts_lightning.config.stored import read_settings
from sts_lightning.config.trust import Trust
from sts_lightning.core.conf_folders import command_line
from sts_lightning.core.errors import CheckpointError, ConfigError, UserError
from sts_lightning.core.text import counted
from sts_lightning.evaluation.retrieval import mean_scores
from sts_lightning.evaluation.sts import check_aggregate, score_subsets
from sts_lightning.models.encoder import freeze
from sts_lightning.models.loading.backbone import check_finite
from sts_lightning.models.loading.run import part_of
from sts_lightning.planning.skeleton import build_skeleton
from sts_lightning.runs.folder import RunFolder, no_run
from sts_lightning.runs.lock import check_links
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.predictions import SELECTS, load_predictions

ROUNDING = 1e-6
"""Largest difference of a correlation times 100 that is computed twice from the same numbers."""


@dataclass(frozen=True)
class Check:
    """One check of a run folder.

    Attributes:
        name: What was checked.
        outcome: Result; ``not checked`` where the model's own files are not on this machine.
        text: What was found, or what is wrong and what to do.
    """

    name: str
    outcome: Literal["ok", "wrong", "not checked"]
    text: str


def verify(run: RunFolder, trust: Trust) -> Iterator[Check]:
    """Check a run, an evaluation, or each stage of a run, up to the first thing that is wrong.

    Args:
        run: The folder.
        trust: Classes and settings that the folder may ask for.

    Yields:
        One check after another.
    """
    try:
        stages = dict(zip(run.load_stages(trust), run.stages(), strict=True)) if run.has_stages else {"": run}
    except UserError as error:
        yield Check(run.stages_file.name, "wrong", str(error))
        return
    for stage, folder in stages.items():
        for check in _checks(folder, trust):
            yield replace(check, name=f"{stage}: {check.name}") if stage else check


def _checks(run: RunFolder, trust: Trust) -> Iterator[Check]:
    name = run.config_file.name
    try:
        cfg = _configuration(run, trust)
        yield Check(name, "ok", "the settings can be read, and name no foreign code")
        name = run.metrics_file.name
        metrics = _results(run)
        yield Check(name, "ok", f"score {metrics.score:.2f}")
        if "suite" in cfg:  # an evaluation stores no weights
            return
        name = f"{run.checkpoints.name}/{run.checkpoint('best').name}"
        checkpoint = run.read_checkpoint("best")
        check_finite(checkpoint["state_dict"].items(), str(run.checkpoint("best")))
        try:
            yield Check(name, "ok", _fit(run, cfg, checkpoint))
        except ConfigError as error:
            if error.key != "model.name":
                raise
            yield Check(name, "not checked", str(error))
        name = run.predictions_file.name
        if metrics.test is not None:
            yield Check(name, "ok", _predictions(run, metrics.test))
    except UserError as error:
        yield Check(name, "wrong", str(error))


def _configuration(run: RunFolder, trust: Trust) -> DictConfig:
    check_links(run.path)
    if not run.config_file.is_file():
        raise no_run(run.path, run.config_file.name)
    cfg = OmegaConf.create(read_settings(run.config_file))
    if "suite" not in cfg:
        return check_config(run.load_config(trust))
    try:
        OmegaConf.merge(OmegaConf.structured(EvalConfig), cfg)
    except OmegaConfBaseException as error:
        raise CheckpointError(
            f"{run.config_file}: {str(error).splitlines()[0]}", str(error.full_key)
        ) from error
    return cfg


def _results(run: RunFolder) -> RunMetrics:
    if run.state in ("started", "interrupted"):
        raise CheckpointError(
            "the run has not finished.",
            hint=f"Resume it with: {command_line('train', path_override('resume', run.name))}",
        )
    return run.metrics()


def _fit(run: RunFolder, cfg: DictConfig, checkpoint: dict[str, Any]) -> str:
    """Check names and shapes of the weights against the run's model, whose own weights are not loaded."""
    encoder = build_skeleton(cfg.model, cfg.prompt).encoder
    freeze(encoder, cfg.optim.freeze)
    weights = part_of(encoder, "encoder.", checkpoint, run.checkpoint("best"))
    whole = sum(1 for _ in encoder.named_parameters())
    return f"{len(weights)} weights of the encoder are finite and fit the model, which has {whole}"


def _predictions(run: RunFolder, test: Mapping[str, Any]) -> str:
    """Compute the test scores again from the stored cosines and gold scores."""
    predictions, tasks = load_predictions(run), test["tasks"]
    if predictions.keys() != tasks.keys():
        raise CheckpointError(
            f"{run.predictions_file} has predictions of {', '.join(predictions)}, the scores are of "
            f"{', '.join(tasks)}."
        )
    check_aggregate(aggregate := test.get("aggregate", "missing"))
    for name, stored in tasks.items():
        where, found = f"{run.metrics_file}: test.tasks.{name}", predictions[name]
        if isinstance(found, dict):
            _compare(stored, {**mean_scores(found), "queries": len(found[SELECTS])}, where, partly=True)
            continue
        cosines, gold = found
        sizes = {key: values.get("pairs", 0) for key, values in (stored.get("subsets") or {}).items()}
        if not (sizes and all(sizes.values())) or sum(list(sizes.values())[:-1]) >= len(gold):
            raise CheckpointError(f"{where}.subsets do not divide the {len(gold)} predictions.")
        ends = np.cumsum(list(sizes.values()))[:-1]
        again = score_subsets(list(sizes), np.split(cosines, ends), np.split(gold, ends), aggregate)
        _compare(stored, again, where)
    scored = [task["spearman"] for task in tasks.values() if "spearman" in task]
    mean = float(np.mean(scored or [task[SELECTS] for task in tasks.values()]))
    _compare({"average": test["average"]}, {"average": mean}, f"{run.metrics_file}: test")
    pairs = sum(
        len(found[SELECTS] if isinstance(found, dict) else found[1]) for found in predictions.values()
    )
    return f"{counted(pairs, 'prediction')} of {counted(len(tasks), 'task')} give the stored scores"


def _compare(stored: Mapping[str, Any], again: Mapping[str, Any], where: str, partly: bool = False) -> None:
    """Compare the numbers of nested mappings; further mappings, such as ``binary``, may be stored.

    Args:
        stored: Stored numbers.
        again: Numbers that were computed again.
        where: Place, for errors.
        partly: Whether there may be further stored numbers.
    """
    for key in again if partly else {**stored, **again}:
        value, other = stored.get(key), again.get(key)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            _compare(value, other, f"{where}.{key}")
        elif isinstance(value, int | float | None) and (
            value is None or other is None or not abs(value - other) <= ROUNDING
        ):
            raise CheckpointError(f"{where}.{key} is {value}, but computed again it is {other}.")
