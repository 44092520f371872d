"""`sts-lightning data`: list the published data that are here, fetch the others, mine hard negatives."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pandas as pd

from sts_lightning.cli.options import COLUMNS, DATA_ROOT, DEVICE, FILE, FRACTION, SENTENCES, TRUST_REMOTE_CODE
from sts_lightning.config.folders import command_line
from sts_lightning.core.errors import ConfigError
from sts_lightning.core.files import check_output, write_atomic
from sts_lightning.data.fetch import DOWNLOADS, fetch_hint, get, load_sources, select, take_stock
from sts_lightning.data.judged_files import read_text_pairs, recognise_task

log = logging.getLogger(__name__)


@click.command("status")
@DATA_ROOT
def status_command(data_root: str) -> None:
    """List the published data, and what is here of each."""
    root = Path(data_root)
    click.echo(f"Published data in {root}")
    for name, download in DOWNLOADS.items():
        stock = take_stock(download, root)
        rows = "-" if stock.rows is None else f"{stock.rows:,}"
        hint = "" if stock.state == "complete" else f" {stock.note} ({fetch_hint(name, root)})"
        click.echo(f"{name:<16} {stock.state:<10} {rows:>9} of {download.published:>9,} rows{hint}")


@click.command("get")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@DATA_ROOT
@click.option("--overwrite", is_flag=True, help="Replace files that are not the published ones.")
def get_command(names: Sequence[str], data_root: str, overwrite: bool) -> None:
    """Fetch published data, check counts and hashes, and install them in the data root.

    NAME is sts (STS12-16, STS-B, SICK), nli (triplets, pairs), wiki, transfer (transfer, probing) or all.
    docs/data.md has the sources.
    """
    get(select(names), load_sources(), Path(data_root), overwrite)


@click.command("mine")
@click.argument("model")
@click.argument("pairs", type=FILE)
@COLUMNS
@click.option("--to", type=FILE, required=True, help="CSV to write, for data=triplets_file.")
@click.option("--corpus", type=FILE, help="Text file with further candidates, one on each line.")
@click.option("--negatives", type=click.IntRange(1, 100), default=1, help="Negatives of a pair.")
@click.option("--range-min", type=click.IntRange(0), default=0, help="Nearest to skip.")
@click.option("--range-max", type=click.IntRange(1), help="Nearest candidates to take from. Default: all.")
@click.option(
    "--relative-margin",
    type=FRACTION,
    default=0.05,
    help="A negative's cosine with the anchor is below that of the positives by this fraction of it.",
)
@click.option("--max-score", type=click.FloatRange(-1, 1), help="Largest cosine of a negative.")
@click.option("--cache-dir", type=FILE, metavar="FOLDER", help="Keep vectors there, as eval does.")
@DEVICE
@TRUST_REMOTE_CODE
def mine_command(
    model: str,
    pairs: Path,
    columns: tuple[str, ...],
    to: Path,
    corpus: Path | None,
    cache_dir: Path | None,
    device: str,
    trust_remote_code: bool,
    **rule: Any,
) -> None:
    """Write each pair of a file with the nearest second sentences of other pairs, as hard negatives.

    MODEL is a run folder, a folder of sentence-transformers or transformers, an id on the model hub, or a
    choice of model=, such as minilm. PAIRS is a CSV, TSV, JSONL or Parquet file of anchors and positives,
    whose columns are recognised.
    docs/own_pairs.md has the definition.
    """
    check_output("--to", to, pairs, corpus, suffix=".csv")
    if rule["range_max"] is not None and rule["range_max"] < rule["range_min"] + rule["negatives"]:
        raise ConfigError("--range-max must be at least --range-min + --negatives.", key="range-max")
    layout = recognise_task(pairs) if columns == SENTENCES else None
    if layout is not None and layout.kind == "rows":
        columns = layout.columns[:2]
    texts, _ = read_text_pairs(pairs, columns)
    # Here, since they load torch, which the other commands do without.
    from sts_lightning.data.sentences import read_sentences
    from sts_lightning.workflows.evaluate import cached_vectors, load_named
    from sts_lightning.workflows.mine import Rule, mine

    further = corpus and read_sentences(corpus, corpus.name, folded=False)["sentence1"]
    encoder = load_named(model, [*zip(*texts, strict=True), further or []], trust_remote_code, device)
    reader = encoder if cache_dir is None else cached_vectors(encoder, str(cache_dir))
    mined = mine(texts, further or [], reader, Rule(**rule), bool(encoder.tokenizer.roles))
    names = ["anchor", "positive", "negative", *(f"negative{i}" for i in range(2, rule["negatives"] + 1))]
    write_atomic(to, pd.DataFrame(mined, columns=names).to_csv(index=False, lineterminator="\n"))
    settings = ["loss=infonce", "data=triplets_file", f"path={to}"]
    if rule["negatives"] > 1:
        settings.append(f"data.columns=[{','.join(names)}]")
    log.info("%s: %s. To train on it: %s", to, f"{len(mined):,} rows", command_line("train", *settings))
