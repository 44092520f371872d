"""STS-Lightning: experiments on semantic textual similarity as configurations."""

from __future__ import annotations

import logging
import typing
from importlib import import_module
from importlib.metadata import version

if typing.TYPE_CHECKING:
    from sts_lightning.cli.from_python import train
    from sts_lightning.models.encoder import SentenceEncoder
    from sts_lightning.models.loading.run import load

    __version__: str

__all__ = ["SentenceEncoder", "__version__", "load", "train"]

# On a CPU, bitsandbytes logs a warning for each layer.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)


LAZY = {
    "load": "sts_lightning.models.loading.run",
    "train": "sts_lightning.cli.from_python",
    "SentenceEncoder": "sts_lightning.models.encoder",
}
"""Modules of what is imported on first use, so that `python train.py --help` does not wait for torch."""


def __getattr__(name: str) -> typing.Any:
    if name in LAZY:
        return getattr(import_module(LAZY[name]), name)
    if name == "__version__":
        return version("sts-lightning")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
