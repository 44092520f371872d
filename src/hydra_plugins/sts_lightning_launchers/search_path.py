"""The user's own folder of the configuration, searched before that of the package."""

from __future__ import annotations

from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.plugins.search_path_plugin import SearchPathPlugin

from sts_lightning.config.folders import PACKAGED, user_folder


class UserFolder(SearchPathPlugin):
    """Adds the user's folder where this project's configuration is composed, and nowhere else."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Put the user's folder before the package's."""
        ours = any(
            entry.provider == "main" and entry.path == str(PACKAGED) for entry in search_path.get_path()
        )
        folder = user_folder() if ours else None
        if folder is not None:
            search_path.prepend("user", f"file://{folder}", SearchPathQuery(provider="main"))
