"""A run as a self-contained HTML page: scores, plots, pairs that it judges otherwise, cost, settings."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from jinja2 import Environment, PackageLoader

from sts_lightning.config.check import flat
from sts_lightning.config.identity import without_volatile
from sts_lightning.core.files import write_atomic
from sts_lightning.evaluation.disagreements import Disagreement
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.listing import shown
from sts_lightning.runs.metrics import RunMetrics


def write_page(
    run: RunFolder,
    metrics: RunMetrics,
    pairs: Sequence[Disagreement] = (),
    settings: Mapping[Any, Any] | None = None,
) -> None:
    """Write the page of a run; what is not known is left out.

    Args:
        run: Run folder, of which history and plots are read.
        metrics: Results of the run.
        pairs: Pairs on which the encoder and the gold scores disagree most.
        settings: Configuration of the run.
    """
    pages = Environment(loader=PackageLoader("sts_lightning", "workflows"), autoescape=True)
    text = pages.get_template("run_page.html.jinja").render(
        name=run.path.resolve().name,
        scores=[(name, f"{value:.2f}") for name, value in metrics.scores.items()],
        binary=_binary(metrics),
        images=[
            (path.stem, base64.b64encode(path.read_bytes()).decode())
            for path in sorted(run.plots.glob("*.png"))
        ],
        pairs=[_pair(pair) for pair in pairs],
        data=[
            (row["source"], f"{row['read']:,}", f"{row['kept']:,}", f"{row.get('weight', 1):g}")
            for row in metrics.details.get("data") or []
        ],
        cost=list(_cost(metrics, run.history())),
        settings=[(key, shown(value)) for key, value in flat(without_volatile(settings or {})).items()],
    )
    write_atomic(run.page_file, text + "\n")


def _binary(metrics: RunMetrics) -> list[tuple[str, ...]]:
    tasks = {"dev": metrics.dev or {}, **(metrics.test or {"tasks": {}})["tasks"]}
    return [
        (
            name,
            *(f"{scores[key]:.2f}" for key in ("average_precision", "f1", "accuracy")),
            scores["chosen_on"],
        )
        for name, task in tasks.items()
        if (scores := task.get("binary"))
    ]


def _pair(pair: Disagreement) -> tuple[str, ...]:
    places = (f"{100 * place:.0f} %" for place in (pair.gold_place, pair.cosine_place))
    return (pair.task, pair.sentence1, pair.sentence2, f"{pair.gold:.2f}", f"{pair.cosine:.3f}", *places)


def _cost(metrics: RunMetrics, history: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    seconds = {"time": metrics.wall_seconds, "time with the runs before": metrics.total_seconds}
    for name, value in seconds.items():
        if value is not None and (name == "time" or value != metrics.wall_seconds):
            yield name, f"{value / 60:.1f} min"
    if metrics.peak_memory_gb is not None:
        yield "peak memory", f"{metrics.peak_memory_gb:.2f} GB"
    rates = [row["tokens_per_second"] for row in history if "tokens_per_second" in row]
    if rates:
        yield "tokens per second", f"{median(rates):,.0f}"
