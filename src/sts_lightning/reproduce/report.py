"""The collected table of a spec, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from sts_lightning.errors import CheckpointError
from sts_lightning.evaluation.bootstrap import Predictions, paired_difference
from sts_lightning.evaluation.predictions import load_predictions
from sts_lightning.evaluation.seeds import read_scores
from sts_lightning.reproduce.jobs import Table


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
    if table.spec.search.key:
        parts.append(_search(table))
    return "\n\n".join(part for part in parts if part) + "\n"


class _Runs:
    """The finished runs of a row."""

    def __init__(self, planned: int) -> None:
        self.planned = planned
        self.scores: list[dict[str, float]] = []
        self.predictions: list[Predictions] = []


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
    values = [str(value) for value in table.spec.search.values]
    for name, row in table.spec.rows.items():
        if not (row.trains and row.search):
            continue
        try:
            scores = table.search_scores(name)
        except CheckpointError:
            lines.append([name, *["missing"] * len(values), ""])
            continue
        lines.append([name, *(f"{scores[value]:.2f}" for value in values), table.chosen(name) or ""])
    key = table.spec.search.key
    how = " ".join(table.spec.search.overrides)
    title = f"Dev Spearman by {key} ({how}); the best value is that of the table above:"
    return f"{title}\n\n{_grid(['', *values, 'chosen'], lines)}"


def _grid(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
