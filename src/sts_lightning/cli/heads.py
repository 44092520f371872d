"""`sts-lightning heads`: a grid of regression heads on a frozen encoder, trained at once."""

from __future__ import annotations

import argparse
from pathlib import Path

from sts_lightning.cli.arguments import Commands


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser(
        "heads", help="train a grid of regression heads on a frozen encoder at once, and score each"
    )
    parser.add_argument(
        "overrides",
        nargs="+",
        metavar="OVERRIDE",
        help="those of train.py; seed, loss and what is below loss and optim may have several values, as in "
        "experiment=regression_head loss.k=1,2,3 loss.x0=0.2,0.25 seed=1,2",
    )
    parser.add_argument(
        "--to", type=Path, metavar="FOLDER", required=True, help="folder to write; resumes an unfinished grid"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Train, write each head as a run, and print the scores of its predictions."""
    from sts_lightning.cli.group_choices import check_choices  # --help does not wait for these

    check_choices(options.overrides)
    from sts_lightning.console import print_scores
    from sts_lightning.workflows.head_cells import compose_cells
    from sts_lightning.workflows.heads import train_heads

    grid = train_heads(compose_cells(options.overrides), options.to)
    rows = {head.cell.name: head.scores.row() for head in grid.heads}
    print_scores("Spearman x 100 of the heads' predictions", {"cosine": grid.cosine.row(), **rows})
