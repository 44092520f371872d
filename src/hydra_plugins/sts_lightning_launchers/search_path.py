"""Further folders of the configuration: the user's before that of the package, the papers' after it."""

from __future__ import annotations

from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.plugins.search_path_plugin import SearchPathPlugin

from sts_lightning.config.folders import PACKAGED, PAPERS, user_folder


class FurtherFolders(SearchPathPlugin):
    """Adds folders where this project's configuration is composed, and nowhere else."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Put the user's folder before the package's, and the papers' after it."""
        ours = any(
            entry.provider == "main" and entry.path == str(PACKAGED) for entry in search_path.get_path()
        )
        if not ours:
            return
        main = SearchPathQuery(provider="main")
        search_path.append("papers", f"file://{PAPERS}", main)
        if (folder := user_folder()) is not None:
            search_path.prepend("user", f"file://{folder}", main)
