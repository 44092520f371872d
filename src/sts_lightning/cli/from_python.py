"""`sts_lightning.train`: what `train.py` does, called from Python."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

import sts_lightning.cli.entries.train  # noqa: F401  # registers what names a run folder
from sts_lightning.cli.hydra_app import showing_progress
from sts_lightning.config.by_file import choose_by_file
from sts_lightning.config.check import path_override, shown
from sts_lightning.config.compose import check_choices, compose_stages, composing, explain, job_config
from sts_lightning.core.errors import ConfigError
from sts_lightning.core.hardware import set_cpu_defaults, set_gpu_defaults
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.command import run_stages, train_in


def train(*, folder: str | Path | None = None, settings: Mapping[str, Any] = {}, **choices: Any) -> RunFolder:
    """Train as `python train.py` does with the same settings, and return the folder of the run.

    Ctrl-C ends it after the current step with an error that says how to resume. The processes of several
    devices need the command.

    Example:
        >>> run = sts_lightning.train(data="pairs.csv", settings={"optim.lr": 1e-4})
        >>> print(run.metrics().score)  # dev Spearman times 100
        >>> vectors = sts_lightning.load(run.path).encode(["A sentence."])

    Args:
        folder: Run folder; what the same call has begun there goes on, and what has finished is returned.
            None: a new one, as the command makes it.
        settings: Settings by their dotted keys, as on the command line; a list is a list.
        **choices: Choices of groups (``model="minilm"``, ``experiment="demo"``) and settings of the top level
            (``seed=2``). A file may stand for ``data``: its columns decide the data, and the loss if none is
            given. So may a class for a choice, as in ``loss=MyLoss`` or ``loss=partial(MyLoss, delta=0.2)``.

    Returns:
        The run, of several stages the last one.

    Raises:
        UserError: The configuration, the data or the folder cannot be used, or the run was stopped.
    """
    set_cpu_defaults()
    set_gpu_defaults()
    given = {**choices, **settings}
    data = given.get("data")
    is_file = isinstance(data, str | Path) and bool(Path(data).suffix)  # no choice has one
    if is_file:
        given["path"] = given.pop("data")
    if folder is not None:
        given["hydra.run.dir"] = folder
    own = {key: value for key, value in given.items() if isinstance(value, type | partial)}
    overrides = [f"{key}={_written(value)}" for key, value in given.items() if key not in own]
    check_choices(overrides)
    deciding = [*overrides, *(f"{key}=own" for key in own)]
    if is_file and "experiment" in given:  # its loss stays, the file takes the place of its data
        deciding = [*(text for text in deciding if not text.startswith("experiment=")), "loss=own"]
    with showing_progress():
        overrides += choose_by_file(deciding)
    with contextlib.ExitStack() as folders:
        try:
            with composing():
                cfg, path = _composed(overrides, own)
                folders.callback(RunFolder(path).remove_if_empty)
                here = "hydra.run.dir=."  # else each would make a folder
                stages = compose_stages(cfg, overrides, lambda texts: _composed([*texts, here], own)[0])
        except (HydraException, OmegaConfBaseException) as error:
            raise explain(error, "train", overrides) from error
        for each in [cfg, *stages.values()]:
            if each.trainer.devices != 1 or each.trainer.num_nodes != 1:
                raise ConfigError("several devices: start the run by the command.", key="trainer.devices")
        run = RunFolder(path)
        run.path.mkdir(parents=True, exist_ok=True)  # as Hydra does; an empty one is removed with its parents
        with showing_progress():
            if stages:
                run_stages(run, stages)
            else:
                train_in(run.path, cfg)
    return run.last_stage()


def _composed(overrides: Sequence[str], own: Mapping[str, Any]) -> tuple[DictConfig, Path]:
    """Compose the configuration of a run and its folder; classes take the place of what their keys name."""
    cfg = compose("train", list(overrides), return_hydra_config=True)
    for key, value in own.items():
        cls, arguments = (value.func, value.keywords) if isinstance(value, partial) else (value, {})
        node = {"_target_": f"{cls.__module__}.{cls.__qualname__}", **arguments}
        OmegaConf.update(cfg, key, node, merge=False)
        cfg.hydra.runtime.choices[key] = cls.__name__  # for the name of the run
    with job_config(cfg), open_dict(cfg):
        cfg.name, path = cfg.name, cfg.hydra.run.dir
        cfg.pop("hydra")
    return cfg, Path(path).absolute()


def _written(value: Any) -> str:
    """Return a value as Hydra's command line has it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_written, value)) + "]"
    return path_override("", value)[1:] if isinstance(value, str | Path) else shown(value)
