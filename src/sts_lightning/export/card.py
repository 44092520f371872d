"""The model card of an export: a README with what the files of a run say, and the hub's metadata."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from jinja2 import Environment, PackageLoader, StrictUndefined

from sts_lightning.config.check import flatten
from sts_lightning.core.choices import ExportFormat, Role
from sts_lightning.core.errors import UserError
from sts_lightning.data.overlap import filter_of
from sts_lightning.evaluation.statistics import score_intervals
from sts_lightning.evaluation.verdict import in_words
from sts_lightning.models.encoding import EncodingConfig
from sts_lightning.models.loading.hub import OWN_FILE, ModelFiles
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.predictions import load_predictions

UNKNOWN = "unknown"


def model_card(
    facts: Mapping[str, Any],
    format_: ExportFormat,
    licence: str | None,
    name: str,
    folder: Path,
    original_base: bool = False,
) -> str:
    """Return the model card of an exported folder.

    Text of the run is written as code, so that it brings no markup.

    Args:
        facts: What is known about the run, of `card_facts`.
        format_: Format of the export.
        licence: Identifier of the licence by the user; None for that of the base model, if known.
        name: Name of the folder, by which the examples load the model.
        folder: Exported folder, complete but for the card.
        original_base: Whether an adapter was merged into the weights before quantisation.
    """
    own = json.loads((folder / OWN_FILE).read_text("utf-8"))
    settings = own["encoding"]
    page = Environment(  # Markdown: no HTML
        loader=PackageLoader("sts_lightning.export", "."),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    page.filters.update(code=code, json=json.dumps, filter_of=filter_of, in_words=in_words)
    text = page.get_template("card.md.jinja").render(
        **facts,
        format=format_,
        licence=licence,
        name=name,
        metadata=_metadata(facts, format_, licence).to_yaml(),
        settings=settings,
        usual=EncodingConfig().as_json(),
        prompts={role: settings[role] for role in get_args(Role) if settings.get(role) is not None},
        checked=own.get("checked"),
        own_file=OWN_FILE,
        own_code=any(folder.glob("*.py")),
        original_base=original_base,
    )
    return f"{text.rstrip()}\n"


def _metadata(facts: Mapping[str, Any], format_: ExportFormat, licence: str | None) -> ModelCardData:
    base, metrics = facts["base"], facts["metrics"]
    stated = {"license": licence} if licence else base.get("licence") or {"license": UNKNOWN}
    library = {"adapter": "peft", "merged": "transformers"}.get(format_, format_)
    results = [
        EvalResult(
            task_type="semantic-similarity",
            task_name="Semantic textual similarity",
            dataset_type="unknown",
            dataset_name=name,
            dataset_config=name,  # huggingface_hub merges results of one type and configuration
            metric_type="spearman_cosine",
            metric_name="Spearman correlation of cosines",
            metric_value=round(metrics.scores[name] / 100, 4),
        )
        for name, task in (metrics.test["tasks"] if metrics.test else {}).items()
        if "pairs" in task
    ]
    return ModelCardData(
        **stated,
        base_model=base.get("hub_id"),
        datasets=facts["datasets"],
        library_name=library,
        pipeline_tag="sentence-similarity" if format_ == "sentence-transformers" else "feature-extraction",
        tags=[library, "sentence-similarity", "feature-extraction", "sts-lightning"],
        model_name=facts["run"] if results else None,
        eval_results=results or None,
    )


def card_facts(folder: Path) -> dict[str, Any]:
    """Collect the facts from the files of a run, finished or not, and from the card of its base model.

    Returns:
        Variables of the template: ``run``, its name; ``base`` and ``recipe`` (see `_base`, `_recipe`);
        ``metrics``; ``intervals`` of the scores, where the stored predictions give the same score; ``mixed``,
        whether the weights are an average; ``datasets``, the ids of training data on the hub.

    Raises:
        CheckpointError: A file is broken, or the folder is no run.
    """
    run = RunFolder(folder)
    settings = run.settings()
    metrics = run.metrics() if run.metrics_file.exists() else RunMetrics(None)
    predicted = metrics.test is not None and run.predictions_file.exists()
    intervals = score_intervals([load_predictions(run)]) if predicted else {}
    path, split = settings.get("path"), flatten(settings).get("data.split")
    on_hub = split is not None and isinstance(path, str) and not Path(path).exists()
    return {
        "run": str(settings.get("name") or folder.resolve().name),
        "base": _base(settings),
        "recipe": _recipe(settings, metrics.details),
        "metrics": metrics,
        # Beyond rounding to two decimals the score is another one, such as a mean over subsets.
        "intervals": {
            name: interval
            for name, interval in intervals.items()
            if abs(interval.estimate - metrics.scores.get(name, math.nan)) <= 0.005
        },
        "mixed": "averaged" in metrics.details
        or flatten(metrics.details).get("wise_ft.share") not in (None, 1),
        "datasets": [path] if on_hub else None,
    }


def _base(settings: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the ``name`` of the model that a run started from and, if known, metadata about its ``licence``.

    A model on the hub has a ``hub_id`` and a ``revision``, which may be empty.
    """
    model = settings.get("model") or {}
    name = model.get("name")
    if not isinstance(name, str):
        return {"name": _last(model.get("_target_") or UNKNOWN)}
    if Path(name).is_dir():  # the card is public, so it does not show where the folder is
        return {"name": Path(name).resolve().name, "licence": _licence(name)}
    hub_id, _, revision = name.partition("@")
    return {"name": hub_id, "hub_id": hub_id, "revision": revision, "licence": _licence(name)}


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


def _recipe(settings: Mapping[Any, Any], details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the known settings of the training and details of the results, by the card's names of them."""
    chosen, results, start = flatten(settings), flatten(details), settings.get("init_from")
    share = results.get("averaged.share" if "averaged" in details else "wise_ft.share")
    averaged = ", ".join(Path(run).name for run in results.get("averaged.runs") or ())
    rows = {
        "average of the weights of": averaged and f"{averaged} (settings of the first)",
        "share of the trained weights, the rest being the start": None if share == 1 else share,
        "loss": _described(settings.get("loss")),
        "regularizer": _described(settings.get("regularizer")),
        "auxiliary": _last(chosen.get("auxiliary._target_") or ""),  # without arguments, which have paths
        "training data": _last(chosen.get("data._target_") or ""),
        "started from the weights of": _start(start, details.get("start")),
        "pooling": chosen.get("prompt.pooling") or chosen.get("model.pooling"),
        "adapter": _described((settings.get("model") or {}).get("adapter")),
        "prompt": chosen.get("prompt.template"),
        "prompt of queries": chosen.get("prompt.query"),
        "prompt of documents": chosen.get("prompt.document"),
        "templates of the views": chosen.get("prompt.view_templates"),
        "maximum length in training": chosen.get("model.max_length"),
        "batch size": chosen.get("data.batch_size"),
        "learning rate": chosen.get("optim.lr"),
        "schedule": chosen.get("optim.schedule"),
        "warmup": chosen.get("optim.warmup"),
        "weight decay": chosen.get("optim.weight_decay"),
        "seed": chosen.get("seed"),
        "steps": results.get("steps"),
        "quantization": results.get("quantization"),
        "precision": results.get("training.precision"),
        "precision of the scores": results.get("precision"),
        "text of the test sets": results.get("senteval_text"),
        "versions": ", ".join(f"{name} {value}" for name, value in (details.get("versions") or {}).items()),
    }
    return {name: value for name, value in rows.items() if value not in (None, "", {}, [])}


def _start(folder: Any, name: Any) -> str | None:
    """Return the run that a run started from: its folder without where that lies, and its name if known."""
    if not isinstance(folder, str):
        return None
    return f"{Path(folder).name} ({name})" if isinstance(name, str) else Path(folder).name


def _described(part: Any) -> str | None:
    """Return the class of a part of the configuration and its arguments."""
    if not isinstance(part, Mapping) or "_target_" not in part:
        return None
    arguments = {key: value for key, value in part.items() if key != "_target_" and value is not None}
    text = ", ".join(f"{key}={json.dumps(value, default=str)}" for key, value in arguments.items())
    return f"{_last(part['_target_'])}({text})"


def _last(target: Any) -> str:
    return str(target).rpartition(".")[2]


def code(text: object, in_table: bool = False) -> str:
    """Return text as a code span, in which Markdown finds no markup; runs of white space become a space.

    Args:
        text: Text, or a value to write as text.
        in_table: Whether the span is for a cell of a table, where a vertical bar needs an escape.
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split()) or " "
    # A span ends at the first run of backticks as long as its fence; spaces keep the text's off the fence.
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    span = f"{fence}{pad}{line}{pad}{fence}"
    return span.replace("|", "\\|") if in_table else span
