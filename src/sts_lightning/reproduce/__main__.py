"""`python -m sts_lightning.reproduce TABLE`: the runs of conf/reproduce/TABLE.yaml, then its table."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from rich.console import Console

from sts_lightning.errors import ConfigError, UserError
from sts_lightning.files import write_atomic
from sts_lightning.reproduce.jobs import Table, carry_out
from sts_lightning.reproduce.report import markdown
from sts_lightning.reproduce.spec import load_spec


def main() -> int:
    """Run a table; the exit status tells whether all its runs finished."""
    parser = argparse.ArgumentParser(prog="python -m sts_lightning.reproduce", description=__doc__)
    parser.add_argument("table", help="a file of conf/reproduce, without .yaml")
    parser.add_argument(
        "--jobs", type=int, default=1, help="runs at a time; each gets its share of the cores"
    )
    parser.add_argument("--folder", type=Path, help="where the runs go; by default runs/reproduce/TABLE")
    parser.add_argument("--report", action="store_true", help="only collect what has finished")
    arguments = parser.parse_args()
    if arguments.jobs < 1:
        raise ConfigError(f"--jobs must be at least 1, got {arguments.jobs}.")
    if not Path("train.py").is_file():
        raise ConfigError("there is no train.py here; run this in the project's folder.")
    spec = load_spec(Path("conf/reproduce") / f"{arguments.table}.yaml")
    table = Table(spec, arguments.folder or Path("runs/reproduce") / arguments.table)
    failed = 0 if arguments.report else run(table, arguments.jobs)
    text = markdown(table)
    Console().print(text, markup=False, soft_wrap=True)
    if table.folder.is_dir():
        write_atomic(table.folder / "table.md", text)
    return 1 if failed else 0


def run(table: Table, parallel: int) -> int:
    """Preparations, searches, seeds; returns how many runs failed."""
    failed = carry_out(table.preparations(), parallel)
    failed += carry_out(table.searches(), parallel)
    jobs = []
    for name in table.spec.rows:
        try:
            jobs += table.seeds(name)
        except UserError as error:
            logging.error("%s is left out: %s", name, error)
    return len(failed + carry_out(jobs, parallel))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped by Ctrl-C; the same command goes on.")
