"""STS-Lightning: experiments on semantic textual similarity as configurations."""

from __future__ import annotations

import logging
import typing

if typing.TYPE_CHECKING:
    from sts_lightning.models.encoder import SentenceEncoder
    from sts_lightning.models.loading.run import load

    __version__: str

__all__ = ["SentenceEncoder", "__version__", "load"]

# On a CPU, bitsandbytes logs a warning for each layer.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)


def __getattr__(name: str) -> typing.Any:
    """Import on first use, so that `python train.py --help` does not wait for torch."""
    if name == "load":
        from sts_lightning.models.loading.run import load

        return load
    if name == "SentenceEncoder":
        from sts_lightning.models.encoder import SentenceEncoder

        return SentenceEncoder
    if name == "__version__":
        from importlib.metadata import version

        return version("sts-lightning")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
