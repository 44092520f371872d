"""Runs that start from the run of an experiment: ``init_from=experiment:NAME``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from sts_lightning.config.check import check_config
from sts_lightning.config.compose import check_choices, compose_job, compose_train, explaining, without_hydra
from sts_lightning.config.identity import FREE, OF_TRAINING, configuration_hash
from sts_lightning.core.errors import ConfigError

EXPERIMENT = "experiment:"
"""Start of a value of ``init_from`` that names the experiment of the first run."""

INHERITED = (
    *("model", "recipe", "prompt", "papers", "scale", "debug", "logger", "trainer"),
    *("seed", "data_root", "senteval_text", "dev", "precision", "trust", "traceback"),
    *("model.", "prompt.", "evaluation.", "auxiliary.", "logger."),
    *("trainer.accelerator", "trainer.deterministic"),
    *(key for key, affects in OF_TRAINING.items() if key.startswith("trainer.") and affects in FREE),
)
"""Groups, settings and beginnings of settings of a command that the first run has too.

All else is this run's own: its data, loss, optimiser, regularizer, callbacks and length.
"""

Compose = Callable[[list[str]], DictConfig]
"""Function that composes the configuration of train.py, with the ``hydra`` node, from overrides."""


@dataclass(frozen=True)
class EarlierRun:
    """A run that another one starts from.

    Attributes:
        overrides: Its command.
        composed: Its composed configuration, including the ``hydra`` node.
        cfg: The same without that node.
        folder: Its folder, named after a hash of its configuration, beside that of the run that starts from
            it: whatever else starts from the same run finds it there.
    """

    overrides: tuple[str, ...]
    composed: DictConfig
    cfg: DictConfig
    folder: Path


def first_overrides(experiment: str, overrides: Sequence[str]) -> list[str]:
    """Return the command of a run that another one starts from: its experiment, and what both share.

    Args:
        experiment: Name of its experiment.
        overrides: Overrides of the other run.
    """
    keys = {text: text.lstrip("+~").partition("=")[0].partition("@")[0] for text in overrides}
    chosen = set(keys.values())

    def is_shared(key: str) -> bool:
        if key.startswith("auxiliary.") and "auxiliary" in chosen:  # settings of this run's own choice
            return False
        return key in INHERITED or key.startswith(tuple(name for name in INHERITED if name.endswith(".")))

    return [f"experiment={experiment}", *(text for text, key in keys.items() if is_shared(key))]


def earlier_runs(
    cfg: DictConfig, overrides: Sequence[str], parent: Path, compose: Compose, later: tuple[str, ...] = ()
) -> list[EarlierRun]:
    """Compose the runs that a run starts from, the first one first, and let it start from the last one.

    Args:
        cfg: Composed configuration of the run; its ``init_from``, if that is an experiment, becomes a folder.
        overrides: Overrides of its command.
        parent: Folder that its own folder lies in.
        compose: Function that composes a configuration.
        later: Experiments that start from this one.

    Raises:
        ConfigError: There is no such experiment, it starts from itself, or its configuration is wrong.
    """
    start = cfg.get("init_from")  # an evaluation has none
    if not isinstance(start, str) or not start.startswith(EXPERIMENT):
        return []
    name = start.removeprefix(EXPERIMENT)
    if name in later:
        raise ConfigError(f"init_from={start}: the experiment starts from itself.", key="init_from")
    check_choices([f"experiment={name}"])
    shared = first_overrides(name, overrides)
    composed = compose(shared).copy()  # that of others too
    earlier = earlier_runs(composed, shared, parent, compose, (*later, name))
    first = without_hydra(composed)
    check_config(first)  # it would train for hours before the mistake is found in a later one
    folder = parent / configuration_hash(first)
    cfg.init_from = str(folder)
    return [*earlier, EarlierRun(tuple(shared), composed, first, folder)]


def compose_runs(overrides: Sequence[str]) -> list[DictConfig]:
    """Compose what ``python train.py`` would run: the run of the command after those that it starts from.

    Args:
        overrides: Overrides as on the command line of ``train.py``.

    Raises:
        ConfigError: See `earlier_runs`; or a setting or a choice does not exist.
    """
    cfg = compose_train(overrides)
    with explaining(overrides):
        earlier = earlier_runs(cfg, overrides, Path("runs"), lambda texts: compose_job("train", tuple(texts)))
    return [*(run.cfg for run in earlier), cfg]
