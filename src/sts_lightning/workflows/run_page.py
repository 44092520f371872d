"""A run as a self-contained HTML page: scores, curves, pairs that it judges otherwise, settings, cost."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from hydra import compose
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.machine import decide, decided
from sts_lightning.errors import ConfigError
from sts_lightning.evaluation.disagreements import Disagreement
from sts_lightning.files import write_atomic
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.html import inline_image, page, text_table
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.state import defining_leaves

log = logging.getLogger(__name__)

Settings = Mapping[str, Any]


def changed_settings(cfg: DictConfig) -> dict[str, tuple[Any, Any]] | None:
    """Return the settings that differ from those without arguments: default and value by dotted key.

    Args:
        cfg: Configuration of the run.

    Returns:
        The settings; None outside a Hydra job, where the defaults are not known.
    """
    if not (GlobalHydra.instance().is_initialized() and HydraConfig.initialized()):
        return None
    try:
        plain = compose(HydraConfig.get().job.config_name)
        with open_dict(plain):
            plain.name = cfg.name  # made from the choices of the groups, which only a job knows
        default: Any = OmegaConf.to_container(plain, resolve=True)
        settled: Any = OmegaConf.to_container(decided(plain, decide(plain.trainer)), resolve=True)
    except (HydraException, OmegaConfBaseException, ConfigError) as error:  # no reason to lose results
        log.warning("the page of the run lacks the changed settings: %s", str(error).splitlines()[0])
        return None
    own: Any = OmegaConf.to_container(cfg, resolve=True)
    before, chosen, now = map(defining_leaves, (default, settled, own))
    return {
        key: (before.get(key, ""), value)
        for key, value in now.items()
        # A run that is resumed has what auto stood for.
        if key not in before or (value != before[key] and (before[key] != "auto" or value != chosen[key]))
    }


def write_page(
    run: RunFolder,
    metrics: RunMetrics,
    pairs: Sequence[Disagreement] = (),
    settings: Mapping[str, tuple[Any, Any]] | None = None,
) -> None:
    """Write the page of a run; what is not known is left out.

    Args:
        run: Run folder, of which history and plots are read.
        metrics: Results of the run.
        pairs: Pairs on which the encoder and the gold scores disagree most.
        settings: Default and value of each changed setting.
    """
    images = "".join(inline_image(path) for path in sorted(run.plots.glob("*.png")))
    sections = {
        "Scores": _table(("", "score"), [(name, f"{value:.2f}") for name, value in metrics.scores.items()]),
        "Two labels": _table(
            ("", "average precision", "F1", "accuracy", "thresholds from"), _binary(metrics)
        ),
        "Curves": f'<div class="plots">{images}</div>' if images else "",
        "Largest disagreements": _pairs(pairs),
        "Changed settings": _table(
            ("setting", "default", "here"),
            [(key, *map(_shown, values)) for key, values in (settings or {}).items()],
            3,
        ),
        "Data": _table(
            ("", "read", "kept", "weight"),
            [
                (str(row["source"]), f"{row['read']:,}", f"{row['kept']:,}", f"{row.get('weight', 1):g}")
                for row in metrics.details.get("data") or []
            ],
        ),
        "Cost": _table(("", ""), list(_cost(metrics, run.history()))),
    }
    parts = (f"<h2>{name}</h2>\n{content}" for name, content in sections.items() if content)
    write_atomic(run.page_file, page(f"Run {run.path.resolve().name}", parts))


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    return text_table(header, rows, words) if rows else ""


def _shown(value: Any) -> str:
    return "null" if value is None else str(value)


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


def _pairs(pairs: Sequence[Disagreement]) -> str:
    if not pairs:
        return ""
    rows = [
        (
            pair.task,
            pair.sentence1,
            pair.sentence2,
            f"{pair.gold:.2f}",
            f"{pair.cosine:.3f}",
            f"{100 * pair.gold_place:.0f} %",
            f"{100 * pair.cosine_place:.0f} %",
        )
        for pair in pairs
    ]
    header = ("task", "first", "second", "gold", "cosine", "place by gold", "by cosine")
    note = "Place: share of the task's pairs that are less similar, by gold score and by cosine."
    return f"<p>{note}</p>{text_table(header, rows, 3)}"


def _cost(metrics: RunMetrics, history: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    seconds = {"time": metrics.wall_seconds, "time with the runs before": metrics.total_seconds}
    for name, value in seconds.items():
        if value is not None and (name == "time" or value != metrics.wall_seconds):
            yield name, f"{value / 60:.1f} min"
    if metrics.peak_memory_gb is not None:
        yield "peak memory", f"{metrics.peak_memory_gb:.2f} GB"
    rates = [row["tokens_per_second"] for row in history if "tokens_per_second" in row]
    per_step = [
        row["tokens_per_second"] / row["steps_per_second"]
        for row in history
        if row.get("steps_per_second") and "tokens_per_second" in row
    ]
    if rates:
        yield "tokens per second", f"{median(rates):,.0f}"
    if per_step and metrics.details.get("steps"):
        yield "tokens, about", f"{sum(per_step) / len(per_step) * metrics.details['steps']:,.0f}"
