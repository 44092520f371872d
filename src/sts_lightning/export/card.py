"""The model card of an export: a README with what the files of a run say, and the hub's metadata."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from jinja2 import Environment, StrictUndefined

from sts_lightning.config.check import flat
from sts_lightning.core.choices import ExportFormat, Role
from sts_lightning.core.counts import TrainingCount
from sts_lightning.core.errors import UserError
from sts_lightning.core.text import code
from sts_lightning.data.overlap import filter_of
from sts_lightning.evaluation.statistics import Interval, score_intervals
from sts_lightning.evaluation.verdict import in_words as verdict_in_words
from sts_lightning.models.encoding import EncodingConfig
from sts_lightning.models.loading.hub import OWN_FILE, ModelFiles
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.predictions import load_predictions

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Base:
    """The model that a run started from.

    Attributes:
        name: Hub id, or the name of a folder or of a function that builds the model.
        hub_id: Id on the model hub without its revision; None for another model.
        revision: Commit, branch or tag on the hub, if the run names one.
        licence: Metadata about the licence from its card; empty if unknown.
    """

    name: str
    hub_id: str | None = None
    revision: str | None = None
    licence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Score:
    """Score of a test set.

    Attributes:
        value: Spearman correlation, or MRR@10, times 100.
        interval: Interval over test pairs; None without predictions that give this score.
        pairs: Number of pairs, or queries; None for the average.
        ranked: Whether it is of queries.
    """

    value: float
    interval: Interval | None
    pairs: int | None
    ranked: bool = False


@dataclass(frozen=True)
class CardFacts:
    """What is known about a run.

    Attributes:
        name: Name of the run.
        base: Model that the run started from.
        recipe: Known settings of the training, by the names that the card gives them.
        data: Training data of each stage, None where it is unknown.
        scores: Scores of the test sets and their average.
        dev: Scores on the dev data that selected the weights, and their number.
        dev_score: The score that selected.
        verdict: The verdict of the run.
        best_step: Step of the weights; None for an average, which the recipe describes.
        hub_data: Ids of training data on the hub.
    """

    name: str
    base: Base
    recipe: Mapping[str, Any]
    data: Sequence[TrainingCount | None] = ()
    scores: Mapping[str, Score] = field(default_factory=dict)
    dev: Mapping[str, Any] | None = None
    dev_score: float | None = None
    verdict: str | None = None
    best_step: Any = UNKNOWN
    hub_data: Sequence[str] = ()


def model_card(
    facts: CardFacts,
    format_: ExportFormat,
    licence: str | None,
    name: str,
    folder: Path,
    original_base: bool = False,
) -> str:
    """Return the model card of an exported folder.

    Text of the run is written as code, so that it brings no markup.

    Args:
        facts: What is known about the run.
        format_: Format of the export.
        licence: Identifier of the licence by the user; None for that of the base model, if known.
        name: Name by which the model is loaded in the examples.
        folder: Exported folder, complete but for the card.
        original_base: Whether an adapter was merged into the weights before quantisation.
    """
    own = json.loads((folder / OWN_FILE).read_text("utf-8"))
    settings = own["encoding"]
    usual = EncodingConfig().as_json()
    prompts = {role: settings[role] for role in get_args(Role) if settings.get(role) is not None}
    page = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)  # Markdown: no HTML
    page.filters.update(code=code, json=json.dumps, filter_of=filter_of)
    template = files("sts_lightning.export").joinpath("card.md.jinja").read_text("utf-8")
    text = page.from_string(template).render(
        facts=facts,
        format=format_,
        licence=licence,
        name=name,
        title=name.rpartition("/")[2],
        metadata=_metadata(facts, format_, licence).to_yaml(),
        settings=settings,
        encoding={
            key: json.dumps(value, ensure_ascii=False)
            if key in prompts
            else value  # a prompt ends in a space
            for key, value in settings.items()
            if value != usual[key] or key == "pooling"
        },
        checked=own.get("checked"),
        prompts=prompts,
        gguf_pooling=GGUF_POOLING.get(settings["pooling"]),
        own_file=OWN_FILE,
        own_code=any(folder.glob("*.py")),
        original_base=original_base,
    )
    return str(ModelCard(f"{text.rstrip()}\n"))


GGUF_POOLING = {"mean": "mean", "cls": "cls", "last_token": "last"}
"""Value of llama.cpp's ``--pooling`` by pooling; others it lacks."""


LIBRARIES: dict[ExportFormat, str] = {
    "adapter": "peft",
    "merged": "transformers",
    "sentence-transformers": "sentence-transformers",
    "onnx": "onnx",
}
"""Library that reads a format, by its name on the hub."""


def _metadata(facts: CardFacts, format_: ExportFormat, licence: str | None) -> ModelCardData:
    stated = {"license": licence} if licence else dict(facts.base.licence) or {"license": UNKNOWN}
    results = [
        EvalResult(
            task_type="semantic-similarity",
            task_name="Semantic textual similarity",
            dataset_type="unknown",
            dataset_name=name,
            dataset_config=name,  # huggingface_hub merges results of one type and configuration
            metric_type="spearman_cosine",
            metric_name="Spearman correlation of cosines",
            metric_value=round(score.value / 100, 4),
        )
        for name, score in facts.scores.items()
        if score.pairs is not None and not score.ranked and math.isfinite(score.value)
    ]
    return ModelCardData(
        **stated,
        base_model=facts.base.hub_id,
        datasets=list(facts.hub_data) or None,
        library_name=LIBRARIES[format_],
        pipeline_tag="sentence-similarity" if format_ == "sentence-transformers" else "feature-extraction",
        tags=[LIBRARIES[format_], "sentence-similarity", "feature-extraction", "sts-lightning"],
        model_name=facts.name if results else None,
        eval_results=results or None,
    )


def card_facts(folder: Path) -> CardFacts:
    """Collect the facts from the files of a run, finished or not, and from the card of its base model.

    Raises:
        CheckpointError: A file is broken, or the folder is no run.
    """
    run = RunFolder(folder).last_stage()
    settings = run.settings()
    metrics = run.metrics() if run.metrics_file.exists() else None
    details = metrics.details if metrics else {}
    mixed = "averaged" in details or flat(details).get("wise_ft.share") not in (None, 1)
    return CardFacts(
        name=str(settings.get("name") or folder.resolve().name),
        base=_base(settings),
        recipe=_recipe(settings, details),
        data=metrics.trained_on if metrics else (None,),
        scores=_scores(run, metrics),
        dev=metrics.dev if metrics else None,
        dev_score=metrics.score if metrics and metrics.dev else None,
        verdict=verdict_in_words(details["verdict"]) if "verdict" in details else None,
        best_step=None if mixed else details.get("best_step", UNKNOWN),
        hub_data=_hub_data(settings),
    )


def _base(settings: Mapping[Any, Any]) -> Base:
    model = settings.get("model") or {}
    name = model.get("name")
    if not isinstance(name, str):
        return Base(_last(model.get("_target_") or UNKNOWN))
    if Path(name).is_dir():  # the card is public, so it does not show where the folder is
        return Base(Path(name).resolve().name, licence=_licence(name))
    hub_id, _, revision = name.partition("@")
    return Base(hub_id, hub_id, revision or None, _licence(name))


def _licence(name: str) -> dict[str, Any]:
    """Return the licence that the card of a model states; empty without a card that can be read."""
    try:
        path = ModelFiles(name).path("README.md")
        stated = {} if path is None else ModelCard.load(path, ignore_metadata_errors=True).data.to_dict()
    except (UserError, OSError, ValueError, TypeError, yaml.YAMLError):
        return {}
    keys = ("license", "license_name", "license_link")
    licence = {key: stated[key] for key in keys if isinstance(stated.get(key), str)}
    return licence if "license" in licence else {}


RECIPE = {
    "prompt": "prompt.template",
    "prompt of queries": "prompt.query",
    "prompt of documents": "prompt.document",
    "templates of the views": "prompt.view_templates",
    "maximum length in training": "model.max_length",
    "batch size": "data.batch_size",
    "learning rate": "optim.lr",
    "schedule": "optim.schedule",
    "warmup": "optim.warmup",
    "weight decay": "optim.weight_decay",
    "seed": "seed",
}
"""Settings that the card shows unchanged, by the names that it gives them."""

DETAILS = {
    "steps": "steps",
    "quantization": "quantization",
    "precision": "training.precision",
    "precision of the scores": "precision",
    "text of the test sets": "senteval_text",
}
"""Details of the results, likewise."""


def _recipe(settings: Mapping[Any, Any], details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the training by the names that the card gives them."""
    chosen, results, start = flat(settings), flat(details), settings.get("init_from")
    share = results.get("averaged.share" if "averaged" in details else "wise_ft.share")
    averaged = ", ".join(Path(run).name for run in results.get("averaged.runs") or ())
    rows = {
        "average of the weights of": averaged and f"{averaged} (settings of the first)",
        "share of the trained weights, the rest being the start": None if share == 1 else share,
        "loss": _described(settings.get("loss")),
        "regularizer": _described(settings.get("regularizer")),
        "auxiliary": _last(chosen.get("auxiliary._target_") or ""),  # without arguments, which have paths
        "training data": _last(chosen.get("data._target_") or ""),
        "started from the weights of": Path(start).name if isinstance(start, str) else None,
        "pooling": chosen.get("prompt.pooling") or chosen.get("model.pooling"),
        "adapter": _described((settings.get("model") or {}).get("adapter")),
        **{name: chosen.get(key) for name, key in RECIPE.items()},
        **{name: results.get(key) for name, key in DETAILS.items()},
        "versions": ", ".join(f"{name} {value}" for name, value in (details.get("versions") or {}).items()),
    }
    return {name: value for name, value in rows.items() if value not in (None, "", {}, [])}


def _described(part: Any) -> str | None:
    """Return the class of a part of the configuration and its arguments."""
    if not isinstance(part, Mapping) or "_target_" not in part:
        return None
    arguments = {key: value for key, value in part.items() if key != "_target_" and value is not None}
    text = ", ".join(f"{key}={json.dumps(value, default=str)}" for key, value in arguments.items())
    return f"{_last(part['_target_'])}({text})"


def _last(target: Any) -> str:
    return str(target).rpartition(".")[2]


def _scores(run: RunFolder, metrics: RunMetrics | None) -> dict[str, Score]:
    """Return the scores, with an interval where the stored predictions give the same score."""
    if metrics is None or metrics.test is None:
        return {}
    tasks = metrics.test["tasks"]
    intervals = score_intervals([load_predictions(run)]) if run.predictions_file.exists() else {}
    scores: dict[str, Score] = {}
    for name, value in metrics.scores.items():
        if name in (*tasks, "average"):
            interval = intervals.get(name)
            # Beyond rounding to two decimals the score is another one, such as a mean over subsets.
            if interval is not None and not abs(interval.estimate - value) <= 0.005:
                interval = None
            task = tasks.get(name, {})
            scores[name] = Score(value, interval, task.get("pairs", task.get("queries")), "queries" in task)
    return scores


def _hub_data(settings: Mapping[Any, Any]) -> list[str]:
    """Return the id of the data set that a run was trained on, if it is on the hub."""
    data = settings.get("data") or {}
    path: Any = settings.get("path")
    of_hub = _last(data.get("_target_")) in ("pairs_hub", "triplets_hub") and isinstance(path, str)
    return [path] if of_hub and not Path(path).exists() else []
