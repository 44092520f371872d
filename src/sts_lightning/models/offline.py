"""A pre-trained encoder that comes with an installed package, for machines without the model hub."""

from __future__ import annotations

import hashlib
import logging
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from sts_lightning.errors import CheckpointError

log = logging.getLogger(__name__)


def packaged_model(package: str, sha256: str) -> Path | None:
    """The model folder in an installed package, found without importing that package.

    Args:
        package: Name of the distribution.
        sha256: What ``model.safetensors`` must hash to.

    Returns:
        The folder that holds ``model.safetensors``, or None if the package is not installed.

    Raises:
        CheckpointError: The package has no such file, or one with another hash.
    """
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        return None
    weights = [Path(str(file.locate())) for file in files if file.name == "model.safetensors"]
    if len(weights) != 1 or not weights[0].is_file():
        raise CheckpointError(f"the package {package} has no single model.safetensors; reinstall it.")
    digest = hashlib.file_digest(weights[0].open("rb"), "sha256").hexdigest()
    if digest != sha256:
        raise CheckpointError(
            f"{weights[0]} is not the file that was expected (SHA-256 {digest}, not {sha256}); it is not "
            f"loaded. Uninstall {package} to use the model hub instead."
        )
    return weights[0].parent
