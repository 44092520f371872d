"""`sts-lightning similarity`: the similarity of each pair of a file."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import click
import pandas as pd

from sts_lightning.cli.options import COLUMNS, DEVICE, FILE, TRUST_REMOTE_CODE
from sts_lightning.core.files import check_output, write_atomic
from sts_lightning.data.judged_files import read_text_pairs
from sts_lightning.evaluation.encoding import score_pairs
from sts_lightning.workflows.evaluate import load_named

log = logging.getLogger(__name__)


@click.command("similarity")
@click.argument("model")
@click.argument("pairs", type=FILE)
@COLUMNS
@click.option("--to", type=FILE, help="CSV to write. Default: the terminal.")
@DEVICE
@TRUST_REMOTE_CODE
def similarity_command(
    model: str, pairs: Path, columns: tuple[str, str], to: Path | None, device: str, trust_remote_code: bool
) -> None:
    """Write the sentences and the cosine of each pair as CSV.

    MODEL is a run folder, a folder of sentence-transformers or transformers, an id on the model hub, or a
    choice of model=, such as minilm. PAIRS is a CSV, TSV, JSONL or Parquet file with two text columns.
    """
    check_output("--to", to, pairs)
    if to is None:  # standard output holds the CSV
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr, force=True)
    texts, _ = read_text_pairs(pairs, columns)
    firsts, seconds = zip(*texts, strict=True)
    encoder = load_named(model, [firsts, seconds], trust_remote_code, device)
    cosines = [f"{cosine:.6f}" for cosine in score_pairs(encoder, firsts, seconds)]
    table = pd.DataFrame(zip(firsts, seconds, cosines, strict=True), columns=[*columns, "cosine"])
    text = table.to_csv(index=False, lineterminator="\n")
    if to is None:
        click.echo(text, nl=False)
    else:
        write_atomic(to, text)
        log.info("%s: the cosines of %s pairs", to, f"{len(texts):,}")
