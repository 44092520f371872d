"""A run checked without starting it: nothing is locked, written or loaded."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.constraints import check_config
from sts_lightning.config.keys import check_known
from sts_lightning.config.machine import decide
from sts_lightning.config.trust import check_links
from sts_lightning.errors import ConfigError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.trainer_checks import check_settings, check_trainer
from sts_lightning.workflows.validate import build_parts, check_checkpoints


class RunCheck:
    """Checks of runs that need not run on this machine, such as those of `validate`.

    Data that several runs have in common is read once.
    """

    def __init__(self) -> None:
        self._read: set[str] = set()

    def __call__(self, run: RunFolder, cfg: DictConfig) -> str | None:
        """Check a run.

        Args:
            run: Its folder, which need not exist.
            cfg: Its composed configuration.

        Returns:
            What this machine lacks for the run; None if it lacks nothing.

        Raises:
            UserError: Configuration, data or checkpoint cannot be used.
        """
        if run.state != "new":
            check_links(run.path)
        if run.resumable:
            check_checkpoints(run)
        check_known(cfg)
        cfg = check_config(cfg)
        check_settings(cfg.trainer, cfg.data.batch_size)
        lacks: str | None = None
        try:
            check_trainer(cfg.trainer, decide(cfg.trainer), cfg.data.batch_size)
        except ConfigError as error:
            lacks = str(error)
        data = build_parts(run, cfg).data
        key = OmegaConf.to_yaml(cfg.data)
        if key not in self._read:
            data.setup()
            self._read.add(key)
        return lacks
