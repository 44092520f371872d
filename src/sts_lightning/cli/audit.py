"""`sts-lightning audit`: whether a model does better on test pairs that occur in public training sets."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from sts_lightning.cli.arguments import Commands, add_trust, at_least
from sts_lightning.data.fetch.hints import default_root
from sts_lightning.errors import ConfigError
from sts_lightning.files import check_output, write_atomic

if TYPE_CHECKING:
    from sts_lightning.evaluation.clean_subset import CleanScore
    from sts_lightning.evaluation.matched import MatchedDifference
    from sts_lightning.workflows.audit import AuditReport

ALARM = 0.05
"""Largest p value that is called a sign of leaks."""


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser(
        "audit", help="whether a model does better on test pairs that occur in public training sets"
    )
    parser.add_argument(
        "source",
        metavar="MODEL",
        help="a run, a model's folder or hub id, or an .npz file of predictions or of vectors",
    )
    parser.add_argument(
        "--reference",
        metavar="MODEL",
        help="a model that has not seen the pairs, at best one that was trained on data like MODEL's without "
        "them; default: the overlap of words",
    )
    parser.add_argument(
        "--rows",
        type=Path,
        metavar="FILE",
        help="what `leaks --rows` wrote, for other training sets; default: STS-B and SICK-R train",
    )
    parser.add_argument("--resamples", type=at_least(1), default=2000, help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all numbers to this file")
    parser.add_argument("--data-root", default=default_root(), help="default: STS_DATA_ROOT, or data")
    add_trust(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the differences and the scores on clean pairs."""
    check_output("--json", options.json, options.rows, Path(options.source))
    if options.reference is not None and os.path.realpath(options.reference) == os.path.realpath(
        options.source
    ):
        raise ConfigError(
            f"--reference {options.reference} is the audited model, from which it cannot differ.",
            key="reference",
            hint="Name another one, such as one that was trained on the same data without test pairs.",
        )
    from sts_lightning.data.leaked_rows import published_leaks, read_leaked_rows  # --help does not wait
    from sts_lightning.data.readers.senteval import load_sts_tasks
    from sts_lightning.workflows.audit import WORD_OVERLAP, audit_model

    leaks = published_leaks() if options.rows is None else read_leaked_rows(options.rows)
    report = audit_model(
        options.source,
        options.reference,
        load_sts_tasks(options.data_root),
        leaks,
        options.resamples,
        options.trust,
        options.trust_remote_code,
    )
    reference = options.reference or WORD_OVERLAP
    console = Console(width=None if Console().is_terminal else 120, markup=False, emoji=False)
    console.print(_differences(report, options.source, reference, leaks.training))
    if report.scores is not None and report.reference_scores is not None:
        console.print(_scores(report.scores, report.reference_scores, reference))
    verdict = conclude(report.audit.whole, options.reference)
    console.print(verdict)
    if options.json is not None:
        named = {"model": options.source, "reference": reference, "training": leaks.training}
        content = {**named, "conclusion": verdict, **dataclasses.asdict(report)}
        write_atomic(options.json, json.dumps(content, indent=1) + "\n")


def conclude(found: MatchedDifference | None, reference: str | None = None) -> str:
    """Return what a difference says, in one sentence.

    Args:
        found: The difference over all sets.
        reference: The model that it is a difference from; None for the overlap of words.
    """
    if found is None:
        return "No conclusion: no leaked pair has a clean pair of its kind."
    size = f"{found.estimate:+.3f} [{found.low:+.3f}, {found.high:+.3f}], p = {found.p_value:.4f}"
    if found.p_value <= ALARM:
        # Against a model the audit is more sensitive: it also finds what data of the same source teach.
        sign = "A sign of leaks" if reference is None else "A sign of leaks, or of training data like them"
        return (
            f"{sign}: leaked pairs are closer to their gold scores than matched clean pairs by {size}, "
            f"beyond what {reference or 'the overlap of words'} explains."
        )
    return (
        f"No sign of leaks: {size}; a difference of {found.detectable:.3f} would have been found with a "
        "probability of 80 %."
    )


def _differences(report: AuditReport, source: str, reference: str, training: str) -> Table:
    table = Table(
        title=f"{source}: test pairs that occur in {training}, and clean pairs of like length and gold score",
        title_justify="left",
        caption=f"Distance from the gold score (0 to 5; {report.audit.mean_error:.3f} on average), less "
        f"{report.audit.slope:.2f} x that of {reference}; positive: closer where leaked. In brackets 95 %.",
        caption_justify="left",
    )
    for heading in ("", "leaked", "clean", "strata", "clean - leaked", "p"):
        table.add_column(heading, justify="right" if heading else "left")
    rows: Mapping[str, MatchedDifference | None] = {
        **report.audit.sets,
        "all": report.audit.whole,
        **{f"{kind}, all": found for kind, found in report.audit.kinds.items()},
    }
    for name, found in rows.items():
        if found is None:
            table.add_row(name, *["-"] * 5)
            continue
        counts = (f"{count:,}" for count in (found.marked, found.controls, found.strata))
        size = f"{found.estimate:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
        table.add_row(name, *counts, size, f"{found.p_value:.4f}")
    return table


def _scores(scores: Mapping[str, CleanScore], others: Mapping[str, CleanScore], reference: str) -> Table:
    table = Table(
        title="Spearman x 100 on all pairs, and on those that occur in no training set",
        title_justify="left",
        caption=f"Clean pairs may be harder or easier: {reference} shows by how much.",
        caption_justify="left",
    )
    for heading in ("", "pairs", "clean pairs", "all", "clean", f"{reference}, all", "clean"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, own in scores.items():
        other = others[name]
        counts = (f"{own.pairs:,}", f"{own.clean_pairs:,}")
        values = (own.official, own.clean, other.official, other.clean)
        table.add_row(name, *counts, *(f"{value:.2f}" for value in values))
    return table
