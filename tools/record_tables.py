"""Keep the scores of finished runs in docs/results, and compute intervals from what is kept.

    python tools/record_tables.py pcc_table3 --model minilm
    python tools/record_tables.py --runs runs/stage2 --name stage2_minilm --command "make reproduce-stage2"
    python tools/record_tables.py --intervals stage2_minilm --to joint_minilm

Run folders are not in the repository. Rows of which a record has more finished runs stay as they are; remove
the file to record a table from the beginning. A name of ``--intervals`` and ``--to`` may be followed by a
row, as in ``losses_minilm:pearson``.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sts_lightning.core.errors import CheckpointError, DataError, UserError
from sts_lightning.core.files import read_json, write_atomic
from sts_lightning.core.text import counted
from sts_lightning.evaluation.statistics import Predictions, paired_difference, score_intervals
from sts_lightning.reproduce.results import Collected, collect
from sts_lightning.reproduce.table import open_table
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.listing import find_runs, group_seeds
from sts_lightning.runs.metrics import MODEL_SETTINGS, UNKNOWN, evaluation_text, in_words
from sts_lightning.runs.predictions import load_predictions

RECORDS = Path(__file__).resolve().parents[1] / "docs" / "results"

MEANS_ONLY = "recorded as means only"
"""Mark of a row without single runs: its interval cannot be computed again."""


@dataclass(frozen=True)
class RecordedRun:
    """One finished run of a row.

    Attributes:
        seed: Random seed; None for the evaluation of a model that was not trained here.
        scores: Its scores, of each test set, on dev and on average.
        minutes: Duration, with the runs that it started from; None if unknown.
        training: Precision, length and quantisation of the training, in words.
        evaluation: Those of the evaluation, and the text that it read.
        examples: Number of training examples of each stage; None where it is unknown.
        hardware: Processor and GPU.
        versions: Versions of Python and of the packages.
        commit: Commit of the code.
        sha256: Hash of its ``predictions.npz``, which is ``predictions/<first 16 digits>.npz`` beside the
            record if it was kept; None without such a file, or where scores are means over subsets.
    """

    seed: int | None
    scores: dict[str, float]
    minutes: float | None = None
    training: str = ""
    evaluation: str = ""
    examples: list[int | None] = field(default_factory=list)
    hardware: str = UNKNOWN
    versions: dict[str, str] = field(default_factory=dict)
    commit: str | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class Result:
    """Scores of one row with one model.

    Attributes:
        row: Name of the row.
        model: Choice of the group model; None if the row's overrides contain it.
        runs: Number of finished runs.
        planned: Number of planned runs.
        scores: Mean of each column over the runs.
        single: The runs; none in rows that were recorded as means only.
        note: What a page that shows the row has to say.
    """

    row: str
    model: str | None
    runs: int
    planned: int
    scores: dict[str, float]
    single: list[RecordedRun] = field(default_factory=list)
    note: str = ""


@dataclass(frozen=True)
class Record:
    """Scores of a table, or of the runs in a folder.

    Attributes:
        table: Name of its specification, or of the record.
        model: Model at whose scale the rows ran; None for the published models.
        source: What the scores were read from.
        results: Scores of the rows.
        command: Command that makes the runs.
    """

    table: str
    model: str | None
    source: str
    results: list[Result]
    command: str = ""


def recorded_run(run: RunFolder, keep: Path | None = None) -> RecordedRun:
    """Return what is recorded of a finished run.

    Args:
        run: Its folder.
        keep: Folder that gets a copy of its predictions; None: only their hash is kept.
    """
    metrics = run.metrics()
    details, seconds, training = metrics.details, metrics.total_seconds, metrics.details.get("training")
    digest = None
    # Scores that are means over subsets have no interval, see `comparable_predictions`.
    if run.predictions_file.is_file() and metrics.aggregate == "all":
        load_predictions(run)  # a broken file is told before anything is written
        content = run.predictions_file.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            write_atomic(_kept(keep, digest), content)
    return RecordedRun(
        seed=details.get("seed"),
        scores={name: round(value, 4) for name, value in metrics.scores.items()},
        minutes=None if seconds is None else round(seconds / 60, 1),
        training="" if training is None else in_words(training, *MODEL_SETTINGS),
        evaluation=evaluation_text(details),
        examples=[None if stage is None else stage.rows for stage in metrics.trained_on],
        hardware=details.get("hardware", UNKNOWN),
        versions=dict(details.get("versions") or {}),
        commit=details.get("git_commit"),
        sha256=digest,
    )


def _kept(folder: Path, digest: str) -> Path:
    return folder / f"{digest[:16]}.npz"


def record_of(collected: Collected, table: str, keep: Path | None = None) -> Record:
    """Return the record of a collected table.

    Args:
        collected: Collected table.
        table: Name of its specification.
        keep: See `recorded_run`.
    """
    results = []
    for system in collected.systems:
        if (cell := system.cell) is not None:
            means = {column: system.mean(column) for column in collected.columns}
            scores = {column: round(value, 4) for column, value in means.items() if value is not None}
            single = [recorded_run(run.folder, keep) for run in system.runs.runs]
            results.append(Result(cell.row, cell.model, len(single), system.planned, scores, single))
    model = collected.table.scale
    scale = "" if model is None else f" --model {model}"
    command = f"sts-lightning reproduce run {table}{scale}"
    return Record(table, model, "the run folders", results, command)


def record_of_runs(folder: Path, name: str, command: str, keep: Path | None = None) -> Record:
    """Return the record of the finished runs in a folder; those that differ in the seed alone are a row.

    Args:
        folder: The folder, such as that of a sweep.
        name: Name of the record.
        command: Command that made the runs.
        keep: See `recorded_run`.

    Raises:
        CheckpointError: No run in the folder has finished, or one has not.
    """
    listed = find_runs(folder)
    unfinished = [run.folder.name for run in listed if run.metrics is None]
    if unfinished or not listed:
        what = f"{unfinished[0]} is not a finished run" if unfinished else f"{folder} has no runs"
        raise CheckpointError(f"{what}; a row would be recorded with fewer runs than it has.")
    results = []
    for group in group_seeds(listed):
        single = [recorded_run(run.folder, keep) for run in group.runs]
        columns = [column for column in single[0].scores if all(column in run.scores for run in single)]
        means = {
            column: round(statistics.mean(run.scores[column] for run in single), 4) for column in columns
        }
        row = ", ".join(f"{key}={value}" for key, value in group.settings.items()) or name
        results.append(Result(row, None, len(single), len(single), means, single))
    return Record(name, None, "the run folders", results, command)


def read_record(path: Path) -> Record:
    """Read a record.

    Raises:
        DataError: The file is broken.
    """
    try:
        record: Record = read_json(path, Record)
    except (OSError, ValueError) as error:
        raise DataError(f"not the record of a table ({error}).", path) from error
    return record


def update_record(path: Path, record: Record) -> None:
    """Write a record, but keep the rows of which the record there has more finished runs."""
    if path.is_file():
        known = {(result.row, result.model): result for result in read_record(path).results}
        results = []
        for result in record.results:
            former = known.get((result.row, result.model), result)
            more = former.planned == result.planned and former.runs > result.runs
            results.append(former if more else result)
        record = dataclasses.replace(record, results=results)
    write_atomic(path, json.dumps(dataclasses.asdict(record), indent=1) + "\n")


def predictions_of(result: Result, record: Record, records: Path) -> list[Predictions]:
    """Return the kept predictions of each run of a row.

    Args:
        result: The row.
        record: Its record.
        records: Folder of the records.

    Raises:
        CheckpointError: The row has none, or they were not kept.
        DataError: A file is not the one that was recorded.
    """
    if not result.single:
        raise CheckpointError(f"{MEANS_ONLY}.")
    found: list[Predictions] = []
    for run in result.single:
        path = _kept(records / "predictions", run.sha256 or "")
        if run.sha256 is None or not path.is_file():
            again = f" {record.command} makes them again." if record.command else ""
            raise CheckpointError(f"the predictions of seed {run.seed} were not kept.{again}")
        if hashlib.sha256(path.read_bytes()).hexdigest() != run.sha256:
            raise DataError("not the predictions that were recorded: their hash differs.", path)
        folder = RunFolder(path.parent)
        folder.predictions_file = path
        found.append(load_predictions(folder))
    return found


def interval_lines(
    name: str, to: str | None, records: Path, resamples: int = 1000, column: str = "average"
) -> Iterator[str]:
    """Yield a line for each row: mean and deviation over its runs, and its interval over test pairs.

    Args:
        name: Name of a record, with ``:ROW`` of one row.
        to: The row that all are compared with, named likewise; None: no comparison.
        records: Folder of the records.
        resamples: Number of bootstrap resamples.
        column: Test set, or ``average``.

    Raises:
        UserError: There is no such record or row, or the predictions of ``to`` were not kept.
    """
    record, results = _named(name, records)
    baseline = None
    if to is not None:
        other, rows = _named(to, records)
        if len(rows) != 1:
            raise UserError(f"{to} has {len(rows)} rows; name one: {to}:{rows[0].row}.")
        try:
            baseline = predictions_of(rows[0], other, records)
        except CheckpointError as error:
            raise UserError(f"{to}: {error}") from error
    for result in results:
        values = [run.scores[column] for run in result.single if column in run.scores]
        spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
        mean = result.scores.get(column)
        text = f"{result.row}: {'-' if mean is None else f'{mean:.2f}'}{spread}, "
        text += f"{result.runs} of {counted(result.planned, 'run')}"
        try:
            predictions = predictions_of(result, record, records)
            whole = score_intervals(predictions, resamples)[column]
            text += f", [{whole.low:.2f}, {whole.high:.2f}]"
            if baseline is not None:
                text += f"; to {to} {paired_difference(predictions, baseline, resamples)[column]}"
        except (CheckpointError, ValueError) as error:
            text += f"; {error}"
        yield text


def _named(name: str, records: Path) -> tuple[Record, Sequence[Result]]:
    stem, _, row = name.partition(":")
    path = records / f"{stem}.json"
    if not path.is_file():
        known = ", ".join(sorted(other.stem for other in records.glob("*.json")))
        raise UserError(f"there is no record {stem}; there are: {known}.")
    record = read_record(path)
    results = [result for result in record.results if not row or result.row == row]
    if not results:
        rows = "; ".join(result.row for result in record.results)
        raise UserError(f"{stem} has no row {row}; there are: {rows}.")
    return record, results


def main() -> None:
    """Record one table or the runs of a folder, or print the intervals of a record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", nargs="?", help="a file of conf/reproduce")
    parser.add_argument("--model", help="a file of conf/reproduce/scale")
    parser.add_argument("--folder", type=Path, default=Path("runs/reproduce"), help="folder of the runs")
    parser.add_argument("--runs", type=Path, help="record the runs in this folder, in place of a table")
    parser.add_argument("--name", help="with --runs: name of the record")
    parser.add_argument("--command", help="with --runs: command that made them")
    parser.add_argument(
        "--predictions",
        action=argparse.BooleanOptionalAction,
        help="keep the predictions, 0.3 MB a run; default: with --runs",
    )
    parser.add_argument("--intervals", metavar="NAME", help="print the intervals of this record")
    parser.add_argument("--to", metavar="NAME", help="with --intervals: and the differences to this one")
    parser.add_argument("--resamples", type=int, default=1000, help="bootstrap resamples")
    options = parser.parse_args()
    asked = [options.table is not None, options.runs is not None, options.intervals is not None]
    if sum(asked) != 1 or (options.runs is not None and not (options.name and options.command)):
        parser.error("name a table, or --runs with --name and --command, or --intervals")
    kept = options.predictions if options.predictions is not None else options.runs is not None
    keep = RECORDS / "predictions" if kept else None
    try:
        if options.intervals is not None:
            for line in interval_lines(options.intervals, options.to, RECORDS, options.resamples):
                print(line)
        elif options.runs is not None:
            record = record_of_runs(options.runs, options.name, options.command, keep)
            update_record(RECORDS / f"{options.name}.json", record)
        else:
            collected = collect(open_table(options.table, options.model, options.folder), resamples=1)
            stem = options.table if options.model is None else f"{options.table}_{options.model}"
            update_record(RECORDS / f"{stem}.json", record_of(collected, options.table, keep))
    except UserError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
