"""Launchers of `-m`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra._internal.callbacks import Callbacks
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra.core.hydra_config import HydraConfig
from hydra.errors import InstantiationException
from hydra.types import HydraContext
from hydra.utils import instantiate

from hydra_plugins.sts_lightning_launchers.launchers import ProcessLauncher
from sts_lightning.core.errors import ConfigError
from tests.conftest import CONF, SHORT_RUN

Cli = Callable[..., subprocess.CompletedProcess[str]]


def test_the_folder_of_a_sweep_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The basic sweeper reads the folder, named after ``${hydra:...}``, as soon as the launcher is set up."""
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("train", ["model=tiny_bert", "data=toy"], return_hydra_config=True)
    ProcessLauncher(None, None, None).setup(
        hydra_context=HydraContext(ConfigLoaderImpl(ConfigSearchPathImpl()), Callbacks()),
        task_function=lambda _: None,
        config=cfg,
    )
    assert cfg.hydra.sweep.dir == "runs/toy-pearson-tiny_bert"


def test_a_sweep_through_the_command_line(cli: Cli, tmp_path: Path) -> None:
    command = ["train.py", "-m", *SHORT_RUN, "trainer.max_steps=2", "logger=csv"]
    runs = "runs/toy-pearson-tiny_bert"
    done = cli(*command, "seed=1", "optim.lr=-1,5e-5", "hydra.launcher.jobs=2")
    assert done.returncode == 1
    assert f"error: 1 of 2 jobs failed; see {runs}/" in done.stderr
    assert "optim.lr must be positive" in done.stdout + done.stderr
    (first,) = [path.parent for path in tmp_path.glob(f"{runs}/*/metrics.json")]
    before = (first / "metrics.json").read_bytes()
    again = cli(*command, "seed=1,2")
    assert again.returncode == 0, again.stderr
    assert "was done: " in again.stdout
    assert (first / "metrics.json").read_bytes() == before
    seeds = [json.loads(path.read_text())["seed"] for path in tmp_path.glob(f"{runs}/*/metrics.json")]
    assert sorted(seeds) == [1, 2]
    rejected = cli(*command, "seed=3", "trainer=gpu", "trainer.devices=2")
    assert rejected.returncode == 1
    assert "a job of the sweep needs 2 GPUs, but 0 are visible" in rejected.stderr
    assert (
        len([path for path in tmp_path.glob(f"{runs}/*") if path.is_dir()]) == 3
    )  # no folder for a job that was not started


def test_optunas_own_direction_is_rejected() -> None:
    """It would look for the lowest dev score."""
    pytest.importorskip("optuna")
    launcher = ProcessLauncher(None, None, None)
    with initialize_config_dir(str(CONF), version_base="1.3"):
        launcher.config = compose("train", ["name=o", "hydra/sweeper=optuna"], return_hydra_config=True)
    with pytest.raises(ConfigError, match="searches for the lowest dev Spearman"):
        launcher.launch([], 0)


@pytest.mark.parametrize(
    ("launcher", "setting"),
    [
        ("process", "jobs=0"),
        ("process", "jobs=-1"),
        ("process", "gpus_per_job=-1"),
        ("process", "timeout_minutes=0"),
        ("slurm", "jobs=0"),
        ("process", "jobs=1.5"),
        ("process", "jobs=a"),
        ("process", "jobs=true"),
        ("process", "timeout_minutes=soon"),
        ("ray", "gpus_per_job=0.5"),
        ("slurm", "memory_gb=much"),
        ("ray", "timeout_minutes=-5"),
    ],
)
def test_numbers_that_would_wait_forever(launcher: str, setting: str) -> None:
    overrides = [f"hydra/launcher={launcher}", f"hydra.launcher.{setting}"]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("train", ["model=tiny_bert", "data=toy", *overrides], return_hydra_config=True)
    with pytest.raises(InstantiationException, match=rf"{setting.partition('=')[0]} must be"):
        instantiate(cfg.hydra.launcher)


def test_a_number_that_would_wait_forever_is_named(cli: Cli) -> None:
    done = cli("train.py", "-m", *SHORT_RUN, "seed=1,2", "hydra.launcher.jobs=-1")
    assert done.returncode == 1
    assert (
        done.stderr.splitlines()[-1]
        == "error: hydra.launcher.jobs must be a whole number above 0 or null, got -1."
    )


def test_a_plan_names_a_setting_that_nothing_reads(cli: Cli) -> None:
    done = cli("train.py", "-m", *SHORT_RUN, "+optim.lrr=1e-3,1e-2", "--plan")
    assert done.returncode == 1
    assert "optim.lrr: no such setting. Did you mean optim.lr?" in done.stderr
