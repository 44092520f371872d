"""Launchers of `-m`."""

from __future__ import annotations

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
from sts_lightning.config.compose import explain
from sts_lightning.core.errors import ConfigError
from tests.conftest import CONF


def test_the_folder_of_a_sweep_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The basic sweeper reads the folder, named after ``${hydra:...}``, as soon as the launcher is set up."""
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("train", ["model=tiny_bert", "data=toy"], return_hydra_config=True)
    ProcessLauncher(jobs=None, gpus_per_job=None, timeout_minutes=None).setup(
        hydra_context=HydraContext(ConfigLoaderImpl(ConfigSearchPathImpl()), Callbacks()),
        task_function=lambda _: None,
        config=cfg,
    )
    assert cfg.hydra.sweep.dir == "runs/toy-pearson-tiny_bert"


def test_optunas_own_direction_is_rejected() -> None:
    """It would look for the lowest dev score."""
    pytest.importorskip("optuna")
    launcher = ProcessLauncher(jobs=None, gpus_per_job=None, timeout_minutes=None)
    with initialize_config_dir(str(CONF), version_base="1.3"):
        launcher.config = compose("train", ["name=o", "hydra/sweeper=optuna"], return_hydra_config=True)
    with pytest.raises(ConfigError, match="searches for the lowest dev Spearman"):
        launcher.launch([], 0)


def test_a_sweep_resumes_no_single_run() -> None:
    launcher = ProcessLauncher(jobs=None, gpus_per_job=None, timeout_minutes=None)
    with initialize_config_dir(str(CONF), version_base="1.3"):
        launcher.config = compose("train", ["name=o"], return_hydra_config=True)
    with pytest.raises(ConfigError, match="resume is for one run"):
        launcher.launch([["resume=a"], ["resume=b"]], 0)


@pytest.mark.parametrize(
    ("launcher", "setting"),
    [
        ("process", "jobs=0"),
        ("process", "timeout_minutes=soon"),
        ("ray", "gpus_per_job=0.5"),
        ("slurm", "memory_gb=much"),
    ],
)
def test_numbers_that_would_wait_forever(launcher: str, setting: str) -> None:
    overrides = [f"hydra/launcher={launcher}", f"hydra.launcher.{setting}"]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("train", ["model=tiny_bert", "data=toy", *overrides], return_hydra_config=True)
    key = setting.partition("=")[0]
    with pytest.raises(InstantiationException) as caught:
        instantiate(cfg.hydra.launcher)
    cause = explain(caught.value, "train", overrides)
    assert f" {key} Input should be" in str(cause)
