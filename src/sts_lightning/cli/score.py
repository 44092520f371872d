"""`sts-lightning score`: the similarity of each pair of a file."""

from __future__ import annotations

import csv
import io
import logging
import sys
from pathlib import Path

import click

from sts_lightning.cli.options import FILE, TRUST_REMOTE_CODE, columns
from sts_lightning.core.files import check_output, write_atomic
from sts_lightning.data.files import read_text_pairs
from sts_lightning.evaluation.encoding import score_pairs
from sts_lightning.workflows.evaluate import load_named

log = logging.getLogger(__name__)


@click.command("score")
@click.argument("model")
@click.argument("pairs", type=FILE)
@columns("sentence1", "sentence2")
@click.option("--to", type=FILE, help="CSV to write. Default: the terminal.")
@TRUST_REMOTE_CODE
def score_command(
    model: str,
    pairs: Path,
    columns: tuple[str, str],
    to: Path | None,
    trust_remote_code: bool,
) -> None:
    """Write the sentences and the cosine of each pair as CSV.

    MODEL is a run folder, a folder of sentence-transformers or transformers, an id on the model hub, or a
    choice of model=, such as minilm. PAIRS is a CSV, TSV, JSONL or Parquet file with two text columns.
    """
    check_output("--to", to, pairs)
    if to is None:  # standard output holds the CSV
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout:
                handler.setStream(sys.stderr)
    texts, _ = read_text_pairs(pairs, columns)
    firsts, seconds = zip(*texts, strict=True)
    encoder = load_named(model, [firsts, seconds], trust_remote_code)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*columns, "cosine"])
    for pair, cosine in zip(texts, score_pairs(encoder, firsts, seconds), strict=True):
        writer.writerow([*pair, f"{cosine:.6f}"])
    if to is None:
        print(text.getvalue(), end="")
    else:
        write_atomic(to, text.getvalue())
        log.info("%s: the cosines of %s pairs", to, f"{len(texts):,}")
