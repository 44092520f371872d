"""Where log lines go, and which of Lightning's are left out."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def log_to(path: Path) -> Iterator[None]:
    """Copy log lines to a file."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


@contextlib.contextmanager
def quiet_lightning() -> Iterator[None]:
    """Leave out Lightning's notes on hardware, and its advice to use worker processes for tokenising."""
    logger = logging.getLogger("lightning.pytorch")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*does not have many workers.*")
            warnings.filterwarnings("ignore", ".*exists and is not empty.*")  # a resumed run's checkpoints
            warnings.filterwarnings("ignore", ".*LeafSpec.*")
            warnings.filterwarnings("ignore", ".*sync_dist=True.*")  # all processes log the same numbers
            warnings.filterwarnings(
                "ignore", r".*module\(s\) in eval mode.*"
            )  # a frozen encoder, a momentum copy
            yield
    finally:
        logger.setLevel(level)
