"""The model card of an export: a README with what the files of a run say, and the hub's metadata."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from huggingface_hub import EvalResult, ModelCardData
from jinja2 import Environment, PackageLoader, StrictUndefined

from sts_lightning.config.check import flatten
from sts_lightning.core.choices import ExportFormat, Role
from sts_lightning.data.overlap import filter_of
from sts_lightning.evaluation.statistics import score_intervals
from sts_lightning.evaluation.verdict import in_words
from sts_lightning.models.encoding import EncodingConfig
from sts_lightning.models.loading.hub import OWN_FILE
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
        licence: Identifier of the licence by the user; None for an unknown one.
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
    metrics = facts["metrics"]
    library = {"adapter": "peft", "merged": "transformers"}.get(format_, format_)
    results = [
        EvalResult(
            task_type="semantic-similarity",
            dataset_type="unknown",
            dataset_name=name,
            dataset_config=name,  # huggingface_hub merges results of one type and configuration
            metric_type="spearman_cosine",
            metric_value=round(metrics.scores[name] / 100, 4),
        )
        for name, task in (metrics.test["tasks"] if metrics.test else {}).items()
        if "pairs" in task
    ]
    return ModelCardData(
        license=licence or UNKNOWN,
        base_model=facts["base"].get("hub_id"),
        datasets=facts["datasets"],
        library_name=library,
        pipeline_tag="sentence-similarity" if format_ == "sentence-transformers" else "feature-extraction",
        tags=[library, "sentence-similarity", "feature-extraction", "sts-lightning"],
        model_name=facts["run"] if results else None,
        eval_results=results or None,
    )


def card_facts(folder: Path) -> dict[str, Any]:
    """Collect the facts from the files of a run, finished or not.

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
    path = settings.get("path")
    read_there = _class(settings.get("data")) in ("pairs_hub", "triplets_hub")
    on_hub = read_there and isinstance(path, str) and not Path(path).exists()
    return {
        "run": str(settings.get("name") or folder.resolve().name),
        "base": _base(settings.get("model") or {}),
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


def _base(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the name of the model that a run started from; of one on the hub its id and revision too."""
    name = model.get("name")
    if not isinstance(name, str):
        return {"name": _class(model) or UNKNOWN}
    if Path(name).is_dir():  # the card is public, so it does not show where the folder is
        return {"name": Path(name).resolve().name}
    hub_id, _, revision = name.partition("@")
    return {"name": hub_id, "hub_id": hub_id, "revision": revision}


DESCRIBED = ("loss", "regularizer", "model.adapter")
"""Parts of a run that a card shows with their arguments; those of data and auxiliary models have paths."""

SETTINGS = (
    *("prompt.pooling", "model.pooling", "prompt.template", "prompt.query", "prompt.document"),
    *("prompt.view_templates", "model.max_length", "data.batch_size", "optim.lr", "optim.schedule"),
    *("optim.warmup", "optim.weight_decay", "seed"),
)
RESULTS = (
    "averaged.share",
    "wise_ft.share",
    "steps",
    "quantization",
    "training.precision",
    "precision",
    "senteval_text",
)
"""What a card shows of the settings of a run, and of the details of its results."""


def _recipe(settings: Mapping[Any, Any], details: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of the settings of a run, and of its results, by their names there."""
    chosen, results = flatten(settings), flatten(details)
    start = details.get("start") or Path(str(settings.get("init_from") or "")).name
    parts = {"model.adapter": (settings.get("model") or {}).get("adapter"), **settings}
    rows = {
        "averaged.runs": ", ".join(Path(run).name for run in results.get("averaged.runs") or ()),
        "init_from": start,
        "data": _class(settings.get("data")),
        "auxiliary": _class(settings.get("auxiliary")),
        **{name: _described(parts.get(name)) for name in DESCRIBED},
        **{name: chosen.get(name) for name in SETTINGS},
        **{name: results.get(name) for name in RESULTS},
        "versions": ", ".join(f"{name} {value}" for name, value in (details.get("versions") or {}).items()),
    }
    return {name: value for name, value in rows.items() if value not in (None, "", [])}


def _class(part: Any) -> str:
    """Return the name of the class or function of a part of the configuration; empty without one."""
    return str((part or {}).get("_target_", "")).rpartition(".")[2]


def _described(part: Any) -> str:
    arguments = {key: value for key, value in (part or {}).items() if key != "_target_" and value is not None}
    text = ", ".join(f"{key}={json.dumps(value, default=str)}" for key, value in arguments.items())
    return f"{_class(part)}({text})" if _class(part) else ""


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
