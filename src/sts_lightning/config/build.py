"""Objects built from a configuration."""

from __future__ import annotations

import re
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from sts_lightning.errors import ConfigError, UserError


def build(path: str, node: DictConfig, **arguments: Any) -> Any:
    """Instantiate a node; an error of a constructor becomes a `ConfigError` that names the setting.

    Args:
        path: Dotted key of the node.
        node: Configuration with ``_target_``.
        **arguments: Further arguments, which take precedence over those of the node.

    Raises:
        ConfigError: A constructor raised `ValueError` or `ImportError`.
    """
    try:
        return instantiate(node, _convert_="all", **arguments)
    except InstantiationException as error:
        cause = error.__cause__ or error
        if isinstance(cause, UserError):
            raise cause from None
        if isinstance(cause, ValueError | ImportError):
            path, node = _failed(path, node, str(error))
            # A message that starts with the name of an argument continues the path.
            argument = str(cause).partition(" ")[0].rstrip(",")
            if argument in node:
                raise ConfigError(f"{path}.{cause}", key=f"{path}.{argument}") from error
            raise ConfigError(f"{path}: {cause}", key=path) from error
        raise


def _failed(path: str, node: DictConfig, message: str) -> tuple[str, DictConfig]:
    """Return the path and the configuration of the nested node whose constructor failed."""
    found = re.search(r"^full_key: (\S+)$", message, re.MULTILINE)
    if found is None or not found[1].startswith(f"{path}."):
        return path, node
    inner = OmegaConf.select(node, found[1].removeprefix(f"{path}."))
    return (found[1], inner) if isinstance(inner, DictConfig) else (path, node)
