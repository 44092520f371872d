"""`sts-lightning search`: the sentences of a file that are most similar to a query."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from sts_lightning.cli.arguments import Commands, add_model, add_trust, at_least

log = logging.getLogger(__name__)


def add_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command to the program."""
    parser = commands.add_parser("search", help="the sentences of a file that are most similar to a query")
    add_model(parser)
    parser.add_argument("corpus", metavar="CORPUS", type=Path, help="text file, one sentence on each line")
    parser.add_argument("queries", metavar="QUERY", nargs="+", help="sentences to find similar ones to")
    parser.add_argument(
        "--top", type=at_least(1), default=5, help="number of sentences; default: %(default)s"
    )
    add_trust(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the most similar sentences to each query with cosine and line number."""
    from sts_lightning.data.readers.row_values import is_blank, text_of
    from sts_lightning.data.readers.text_files import read_lines
    from sts_lightning.errors import UserError
    from sts_lightning.evaluation.similarity import search
    from sts_lightning.workflows.evaluated_encoder import load_named

    numbered = [
        (line, text) for line, text in enumerate(read_lines(options.corpus), start=1) if not is_blank(text)
    ]
    corpus = [text for _, text in numbered]
    queries = [text_of(query, "QUERY") for query in options.queries]
    if any(map(is_blank, queries)):
        raise UserError("a query is empty.")
    encoder = load_named(options.model, options.trust, options.trust_remote_code)
    for query, matches in zip(queries, search(encoder, corpus, queries, options.top), strict=True):
        log.info("%s", query)
        for cosine, index in matches:
            log.info("  %.4f  line %d: %s", cosine, numbered[index][0], corpus[index])
