"""Composition of configurations outside a Hydra job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from yaml import MarkedYAMLError, YAMLError

from sts_lightning.conf_folders import PACKAGED
from sts_lightning.config.schema import register_schemas
from sts_lightning.errors import ConfigError


@contextmanager
def composing() -> Iterator[None]:
    """Let Hydra's ``compose`` read this project's configuration, and the user's own before it.

    Raises:
        ConfigError: A file is not valid YAML.
    """
    register_schemas()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(PACKAGED), version_base="1.3"):
        try:
            yield
        except YAMLError as error:
            raise broken_yaml(error) from error


def broken_yaml(error: YAMLError) -> ConfigError:
    """Return the error for a file that is not valid YAML, with its line."""
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return ConfigError(f"a configuration is not valid YAML: {error}")
    place = f"{error.problem_mark.name}, line {error.problem_mark.line + 1}"
    return ConfigError(f"{place}: not valid YAML ({error.problem}).")
