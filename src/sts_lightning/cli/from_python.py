"""`sts_lightning.train`: what `train.py` does, called from Python."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hydra import compose
from omegaconf import DictConfig, OmegaConf

from sts_lightning.cli.hydra_app import showing_progress
from sts_lightning.config.by_file import choose_by_file
from sts_lightning.config.check import written
from sts_lightning.config.compose import check_choices, composing, explaining, job_config, without_hydra
from sts_lightning.config.earlier_runs import INHERITED, earlier_runs
from sts_lightning.config.schema import COMMAND
from sts_lightning.core.errors import ConfigError
from sts_lightning.core.hardware import set_cpu_defaults, set_gpu_defaults
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_after


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
        The run.

    Raises:
        UserError: The configuration, the data or the folder cannot be used, or the run was stopped.
    """
    set_cpu_defaults()
    set_gpu_defaults()
    given = {**choices, **settings}
    if of_command := given.keys() & COMMAND:
        key, hint = min(of_command), "The same call with folder=RUN resumes a run."
        raise ConfigError(f"{key} is a setting of the command.", key=key, hint=hint)
    data = given.get("data")
    is_file = isinstance(data, str | Path) and bool(Path(data).suffix)  # no choice has one
    if is_file:
        given["path"] = given.pop("data")
    if folder is not None:
        given["hydra.run.dir"] = folder
    own = {key: value for key, value in given.items() if isinstance(value, type | partial)}
    overrides = [f"{key}={written(value)}" for key, value in given.items() if key not in own]
    check_choices(overrides)
    deciding = [*overrides, *(f"{key}=own" for key in own)]
    if is_file and "experiment" in given:  # its loss stays, the file takes the place of its data
        deciding = [*(text for text in deciding if not text.startswith("experiment=")), "loss=own"]
    with showing_progress(), contextlib.ExitStack() as folders:
        overrides += choose_by_file(deciding)
        with explaining(overrides), composing():
            composed = _composed(overrides, own)
            with job_config(composed):
                run = RunFolder(Path(composed.hydra.run.dir).absolute())
            folders.callback(run.remove_if_empty)
            cfg, shared = without_hydra(composed), {key: own[key] for key in own if key in INHERITED}
            parent = Path(run.name).parent
            earlier = earlier_runs(cfg, overrides, parent, lambda texts: _composed(texts, shared))
        if cfg.trainer.devices != 1 or cfg.trainer.num_nodes != 1:
            raise ConfigError("several devices: start the run by the command.", key="trainer.devices")
        run.path.mkdir(parents=True, exist_ok=True)  # as Hydra does; an empty one is removed with its parents
        train_after(run, cfg, earlier)
    return run


def _composed(overrides: Sequence[str], own: Mapping[str, Any]) -> DictConfig:
    """Compose the configuration of a run; classes take the place of what their keys name."""
    cfg = compose("train", list(overrides), return_hydra_config=True)
    for key, value in own.items():
        cls, arguments = (value.func, value.keywords) if isinstance(value, partial) else (value, {})
        node = {"_target_": f"{cls.__module__}.{cls.__qualname__}", **arguments}
        OmegaConf.update(cfg, key, node, merge=False)
        cfg.hydra.runtime.choices[key] = cls.__name__  # for the name of the run
    return cfg
