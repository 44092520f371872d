"""Files of a model: in a folder, in an installed package, or on the model hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)

from sts_lightning.errors import CheckpointError, ConfigError
from sts_lightning.models.backbone import find


class ModelFiles:
    """Files of a model in a folder, in an installed package or on the model hub.

    Args:
        name: Local folder, or id on the model hub, optionally followed by ``@commit``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.source, self.options = find(name)

    def path(self, relative: str) -> Path | None:
        """Return the path of a file, None if the model has none.

        Raises:
            ConfigError: The model hub has no such model, or cannot be asked.
        """
        if Path(self.source).is_dir():
            path = Path(self.source) / relative
            return path if path.is_file() else None
        try:
            return Path(hf_hub_download(self.source, relative, **self.options))
        except LocalEntryNotFoundError as error:
            raise ConfigError(
                f"{relative} of {self.name} is not in the hub's cache, and the hub does not answer.",
                key="model.name",
                hint="Check the connection and HF_HUB_OFFLINE, or set model.name to a folder with the files.",
            ) from error
        except EntryNotFoundError:
            return None
        except (RepositoryNotFoundError, HFValidationError, OSError) as error:
            raise ConfigError(
                f"{self.name} is neither a folder nor a model on the hub: {str(error).splitlines()[0]}",
                key="model.name",
                hint="Check the spelling; a gated model needs `hf auth login`.",
            ) from error

    def json(self, relative: str) -> Any:
        """Return the contents of a JSON file, None if there is no such file.

        Raises:
            CheckpointError: The file is broken.
        """
        path = self.path(relative)
        if path is None:
            return None
        try:
            return json.loads(path.read_text("utf-8"))
        except (ValueError, OSError) as error:
            raise CheckpointError(f"{path} cannot be read: {error}", key="model.name") from error

    def mapping(self, relative: str) -> dict[str, Any]:
        """Return a JSON file that holds a mapping; an absent file is an empty one."""
        found = self.json(relative)
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise CheckpointError(f"{self.name}: {relative} holds no settings.", key="model.name")
        return found
