"""What is known about a run, for the model card of its export."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import ModelCard

from sts_lightning.data.overlap import filter_of
from sts_lightning.errors import UserError
from sts_lightning.evaluation.bootstrap import Interval, score_intervals
from sts_lightning.models.model_files import ModelFiles
from sts_lightning.published import TrainingCount
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.predictions import load_predictions

UNKNOWN = "unknown"

ROUNDING = 0.005
"""Largest difference of a stored score from that of the stored predictions; beyond it they are another's."""

LICENCE_KEYS = ("license", "license_name", "license_link")


@dataclass(frozen=True)
class Base:
    """The model that a run started from.

    Attributes:
        name: Hub id, or name of the folder or of the function that builds it.
        hub_id: Id on the model hub without its revision; None for another model.
        revision: Commit, branch or tag on the hub, if the run names one.
        licence: Entries about the licence in the metadata of its card; empty if unknown.
    """

    name: str
    hub_id: str | None = None
    revision: str | None = None
    licence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Score:
    """Score of a test set.

    Attributes:
        value: Spearman correlation times 100.
        interval: Interval over test pairs, None without predictions that give this score.
        pairs: Number of pairs; None for the average.
    """

    value: float
    interval: Interval | None
    pairs: int | None


@dataclass(frozen=True)
class CardFacts:
    """What is known about a run.

    Attributes:
        name: Name of the run.
        base: Model that the run started from.
        recipe: Settings of the training by their names, those that are known.
        data: Training data of each stage, None where it is unknown.
        scores: Scores of the test sets and their average.
        without_intervals: Reason why scores have no interval, if some have none.
        dev: Dev score that selected the weights, and its number of pairs.
        dev_untuned: Dev score before training.
        best_step: Step of the weights, or None for an average, which the recipe describes.
        hub_data: Ids of training data on the hub.
    """

    name: str
    base: Base
    recipe: Mapping[str, Any]
    data: Sequence[TrainingCount | None] = ()
    scores: Mapping[str, Score] = field(default_factory=dict)
    without_intervals: str | None = None
    dev: Mapping[str, Any] | None = None
    dev_untuned: float | None = None
    best_step: Any = UNKNOWN
    hub_data: Sequence[str] = ()


def card_facts(folder: Path) -> CardFacts:
    """Collect what the files of a run, and of its base model, say.

    Args:
        folder: Run folder, finished or not.

    Raises:
        CheckpointError: A file is broken, or the folder is no run.
    """
    run = RunFolder(folder).last_stage()
    settings = run.settings()
    metrics = run.metrics() if run.metrics_file.exists() else None
    details = metrics.details if metrics else {}
    scores, why = _scores(run, metrics)
    untuned = details.get("dev_untuned")
    return CardFacts(
        name=str(settings.get("name") or folder.resolve().name),
        base=_base(_group(settings, "model")),
        recipe=_averaged(metrics) | _recipe(settings, details),
        data=metrics.trained_on if metrics else (None,),
        scores=scores,
        without_intervals=why,
        dev=metrics.dev if metrics else None,
        dev_untuned=untuned if isinstance(untuned, float) else None,
        best_step=None if _is_average(details) else details.get("best_step", UNKNOWN),
        hub_data=_hub_data(_group(settings, "data")),
    )


def leak_audit(data: TrainingCount | None) -> str:
    """Return what is known about test pairs in training data."""
    filtered = None if data is None else filter_of(data.dropped)
    if filtered is None:
        return "not audited"
    how, count = filtered
    if how == "none":
        return "not audited: filter=none keeps pairs of the test sets"
    return f"{count:,} pairs of the test sets removed (filter={how}); near duplicates not searched"


def _group(settings: Mapping[Any, Any], name: str) -> Mapping[Any, Any]:
    group = settings.get(name)
    return group if isinstance(group, Mapping) else {}


def _base(model: Mapping[Any, Any]) -> Base:
    name = model.get("name")
    if not isinstance(name, str):
        return Base(_last(model.get("_target_", UNKNOWN)))
    licence = _licence(name)
    if Path(name).is_dir():  # its place on this machine is nobody else's business
        return Base(Path(name).resolve().name, licence=licence)
    hub_id, _, revision = name.partition("@")
    return Base(hub_id, hub_id, revision or None, licence)


def _licence(name: str) -> dict[str, Any]:
    """Return what the card of a model says about its licence; nothing without a card that can be read."""
    try:
        path = ModelFiles(name).path("README.md")
        stated = None if path is None else ModelCard.load(path, ignore_metadata_errors=True).data.to_dict()
    except (UserError, OSError, ValueError, TypeError, yaml.YAMLError):
        return {}
    licence = {key: stated[key] for key in LICENCE_KEYS if stated and isinstance(stated.get(key), str)}
    return licence if "license" in licence else {}


def _recipe(settings: Mapping[Any, Any], details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the training by the names that the card gives them."""
    model, prompt, data, optim, trainer = (
        _group(settings, name) for name in ("model", "prompt", "data", "optim", "trainer")
    )
    start = settings.get("init_from")
    machine = details.get("machine")
    rows = {
        "loss": _described(_group(settings, "loss")),
        "regularizer": _described(_group(settings, "regularizer")),
        "companion": _last(_group(settings, "companion").get("_target_", "")),  # its sources are paths
        "training data": _last(data.get("_target_", "")),
        "started from the weights of": Path(start).name if isinstance(start, str) else None,
        "prompt": prompt.get("template"),
        "templates of the views": prompt.get("view_templates"),
        "pooling": prompt.get("pooling") or model.get("pooling"),
        "adapter": _described(_group(model, "adapter")),
        "quantization": details.get("quantization"),
        "maximum length in training": model.get("max_length"),
        "steps": details.get("steps"),
        "batch size": data.get("batch_size"),
        "learning rate": optim.get("lr"),
        "schedule": optim.get("schedule"),
        "warmup": optim.get("warmup"),
        "weight decay": optim.get("weight_decay"),
        "gradient clipping": trainer.get("gradient_clip_val"),
        "share of the trained weights, the rest being the start": _share(details),
        "seed": settings.get("seed"),
        "precision": (details.get("training") or {}).get("precision"),
        "precision of the scores": details.get("precision"),
        "text of the test sets": details.get("senteval_text"),
        "device": machine.get("accelerator") if isinstance(machine, Mapping) else None,
        "versions": _listed(details.get("versions")),
        "commit of the code": details.get("git_commit"),
    }
    return {name: value for name, value in rows.items() if value not in (None, "", {}, [])}


def _is_average(details: Mapping[str, Any]) -> bool:
    return "averaged" in details or _share(details) is not None


def _share(details: Mapping[str, Any]) -> float | None:
    share: float = details.get("wise_ft", {"share": 1.0})["share"]
    return share if share < 1 else None


def _averaged(metrics: RunMetrics | None) -> dict[str, Any]:
    """Return the runs that an average was made of; the recipe is that of the first."""
    if metrics is None or not metrics.averaged:
        return {}
    names = ", ".join(Path(run).name for run in metrics.averaged)
    share = metrics.details["averaged"]["share"]
    rest = {} if share == 1 else {"share of the average, the rest being the start": share}
    return {"average of the weights of": f"{names} (settings of the first)", **rest}


def _described(part: Mapping[Any, Any]) -> str | None:
    """Return the class of a part of the configuration and its arguments."""
    if "_target_" not in part:
        return None
    arguments = {key: value for key, value in part.items() if key != "_target_" and value is not None}
    text = ", ".join(f"{key}={json.dumps(value, default=str)}" for key, value in arguments.items())
    return f"{_last(part['_target_'])}({text})"


def _last(target: Any) -> str:
    return str(target).rpartition(".")[2]


def _listed(values: Any) -> str | None:
    return (
        ", ".join(f"{name} {value}" for name, value in values.items())
        if isinstance(values, Mapping)
        else None
    )


def _scores(run: RunFolder, metrics: RunMetrics | None) -> tuple[dict[str, Score], str | None]:
    """Return the scores with intervals, and why some have none."""
    if metrics is None or metrics.test is None:
        return {}, None
    tasks = metrics.test["tasks"]
    values = {name: value for name, value in metrics.scores.items() if name in (*tasks, "average")}
    found: dict[str, Interval] = {}
    why = None
    if run.predictions_file.exists():
        found = score_intervals([load_predictions(run)])
    else:
        why = "the run stored no predictions"
    fitting = {
        name: found[name]
        for name, value in values.items()
        if name in found and abs(found[name].estimate - value) <= ROUNDING
    }
    if found and len(fitting) < len(values):
        how = metrics.test.get("aggregate", UNKNOWN)
        why = f"another score than that of all its stored pairs together (aggregate={how})"
    pairs = {name: task["pairs"] for name, task in tasks.items() if isinstance(task.get("pairs"), int)}
    return {name: Score(value, fitting.get(name), pairs.get(name)) for name, value in values.items()}, why


def _hub_data(data: Mapping[Any, Any]) -> list[str]:
    """Return the id of the data set on the hub that a run was trained on, if it was one."""
    path = data.get("path")
    is_hub = _last(data.get("_target_", "")) in ("PairsHubData", "TripletsHubData") and isinstance(path, str)
    return [str(path)] if is_hub and not Path(str(path)).exists() else []
