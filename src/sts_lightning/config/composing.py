"""Composition of configurations outside a Hydra job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from sts_lightning.conf_folders import PACKAGED
from sts_lightning.config.schema import register_schemas


@contextmanager
def composing() -> Iterator[None]:
    """Let Hydra's ``compose`` read this project's configuration, and the user's own before it."""
    register_schemas()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(PACKAGED), version_base="1.3"):
        yield
