"""The collected table of a spec, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from sts_lightning.analysis.phases import find_phases
from sts_lightning.errors import CheckpointError
from sts_lightning.evaluation.bootstrap import Predictions, paired_difference
from sts_lightning.evaluation.predictions import load_predictions
from sts_lightning.evaluation.seeds import read_scores
from sts_lightning.reproduce.jobs import Table
from sts_lightning.training.history import read_history


def markdown(table: Table, resamples: int = 1000) -> str:
    """Scores of all rows, their spread, and paired differences to the baselines.

    A row whose runs have not all finished shows how many have; it is missing where none has.

    Args:
        table: The runs.
        resamples: Draws of the bootstrap.
    """
    finished = {name: _finished(table, name) for name in table.spec.rows}
    parts = [f"### {table.spec.title}", _scores(table, finished)]
    parts += [_differences(finished, baseline, resamples) for baseline in table.spec.baselines]
    parts.append(_ranks(finished))
    if table.spec.search.candidates:
        parts.append(_search(table))
    return "\n\n".join(part for part in parts if part) + "\n"


class _Runs:
    """The finished runs of a row."""

    def __init__(self, planned: int) -> None:
        self.planned = planned
        self.scores: list[dict[str, float]] = []
        self.predictions: list[Predictions] = []
        self.ranks: list[list[dict[str, float]]] = []


def _finished(table: Table, name: str) -> _Runs:
    try:
        jobs = table.seeds(name)
    except CheckpointError:  # the search has not finished
        return _Runs(len(table.spec.seeds))
    found = _Runs(len(jobs))
    for job in jobs:
        if job.done:
            found.scores.append(read_scores(job.folder))
            found.predictions.append(load_predictions(job.folder))
            history = read_history(job.folder / "history.csv")
            found.ranks.append([row for row in history if "rank/energy" in row])
    return found


def _scores(table: Table, finished: Mapping[str, _Runs]) -> str:
    found = dict.fromkeys(c for runs in finished.values() for row in runs.scores for c in row)
    columns = sorted(found, key=lambda column: column != "dev")
    lines = []
    for name, runs in finished.items():
        if not runs.scores:
            lines.append([name, *["missing"] * len(columns), "", f"0 of {runs.planned}"])
            continue
        values = {c: [row[c] for row in runs.scores if c in row] for c in columns}
        means = [f"{statistics.mean(values[c]):.2f}" if values[c] else "" for c in columns]
        averages = values.get("average", [])
        spread = f"{statistics.stdev(averages):.2f}" if len(averages) > 1 else ""
        lines.append([name, *means, spread, f"{len(runs.scores)} of {runs.planned}"])
    return _grid(["", *columns, "std of average", "runs"], lines)


def _differences(finished: Mapping[str, _Runs], baseline: str, resamples: int) -> str:
    if not finished[baseline].predictions:
        return ""
    lines, columns = [], []
    for name, runs in finished.items():
        if name != baseline and runs.predictions:
            found = paired_difference(runs.predictions, finished[baseline].predictions, resamples)
            columns = list(found)
            lines.append([name, *(str(interval) for interval in found.values())])
    title = f"Difference to {baseline}, with paired bootstrap intervals (95 %) over test pairs:"
    return f"{title}\n\n{_grid(['', *columns], lines)}" if lines else ""


def _search(table: Table) -> str:
    lines = []
    candidates = list(table.spec.search.candidates)
    for name, row in table.spec.rows.items():
        if not (row.trains and row.search and row.choice_of is None):
            continue
        try:
            scores = table.search_scores(name)
        except CheckpointError:
            lines.append([name, *["missing"] * len(candidates), ""])
            continue
        lines.append(
            [name, *(f"{scores[candidate]:.2f}" for candidate in candidates), table.chosen(name) or ""]
        )
    how = " ".join(table.spec.search.overrides)
    title = f"Dev Spearman of the candidates ({how}); the best one is that of the table above:"
    return f"{title}\n\n{_grid(['', *candidates, 'chosen'], lines)}"


def _ranks(finished: Mapping[str, _Runs]) -> str:
    """How the energy rank moved, for rows that a `RankMonitor` watched: mean over their runs."""
    lines = []
    for name, runs in finished.items():
        watched = [rows for rows in runs.ranks if rows]
        if not watched:
            continue
        columns = []
        for rows in watched:
            ranks, scores = ([row[key] for row in rows] for key in ("rank/energy", "rank/spearman"))
            phases = find_phases([int(row["step"]) for row in rows], ranks, scores)
            best = ranks[scores.index(max(scores))]
            correlations = (phases.correlation1, phases.correlation2)
            columns.append((ranks[0], max(ranks), phases.boundary, best, ranks[-1], *correlations))
        lines.append([name, *(_mean_cell(values) for values in zip(*columns, strict=True))])
    header = ["", "start", "highest", "at step", "at best dev", "end", "r in phase 1", "r in phase 2"]
    title = "Energy rank of the dev sentences, and its correlation with the dev score by phase:"
    return f"{title}\n\n{_grid(header, lines)}" if lines else ""


def _mean_cell(values: Sequence[float | None]) -> str:
    """The mean of what there is, with how many there are if not all."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    mean = statistics.mean(known)
    text = f"{mean:.2f}" if abs(mean) <= 1 else f"{mean:.0f}"
    return text if len(known) == len(values) else f"{text} ({len(known)} of {len(values)})"


def _grid(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
