"""STS-Lightning: experiments on semantic textual similarity as configurations."""

from __future__ import annotations

import logging
import typing

if typing.TYPE_CHECKING:
    from sts_lightning.models.loading import load

__all__ = ["load"]

# bitsandbytes warns of kernels that it could download, and on a CPU for each layer.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)


def __getattr__(name: str) -> typing.Any:
    """Import on first use, so that `python train.py --help` does not wait for torch."""
    if name == "load":
        from sts_lightning.models.loading import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
