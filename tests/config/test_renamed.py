"""Run folders written before a target moved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hydra import compose
from omegaconf import DictConfig, OmegaConf
from omegaconf.basecontainer import BaseContainer

from sts_lightning.config.constraints import check_target
from sts_lightning.config.renamed import ADDED, RENAMED, first_names, without_added
from sts_lightning.config.trust import read_config, read_stages
from sts_lightning.sweep.job import job_folder
from tests.conftest import ROOT

Config = Callable[..., DictConfig]

OLD = {
    "model": {"_target_": "sts_lightning.models.tiny_bert.tiny_bert", "dropout": 0.1},
    "data": {"_target_": "sts_lightning.data.toy.ToyData", "batch_size": 16, "seed": 1},
}


def check_renamed(cfg: DictConfig) -> None:
    assert cfg.model._target_ == "sts_lightning.testing.tiny_bert.tiny_bert"
    assert cfg.data._target_ == "sts_lightning.testing.toy.ToyData"
    check_target("model", cfg.model)
    check_target("data", cfg.data)


def test_an_old_run_loads(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({**OLD, "adapter": None, "betas": [0.9, 0.999]}))
    cfg = read_config(path)
    assert isinstance(cfg, BaseContainer)
    check_renamed(cfg)
    assert cfg.adapter is None
    assert cfg.betas == [0.9, 0.999]


def test_old_stages_load(tmp_path: Path) -> None:
    path = tmp_path / "stages.yaml"
    path.write_text(yaml.safe_dump({"first": OLD, "second": OLD}))
    for cfg in read_stages(path).values():
        check_renamed(cfg)


def test_old_runs_cut_in_evaluation_as_in_training(tmp_path: Path) -> None:
    run = {"model": {"max_length": 32}, "evaluation": {"final": True}}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(run))
    assert read_config(path).evaluation.max_length == 32
    path.write_text(yaml.safe_dump({**run, "evaluation": {"max_length": None}}))
    assert read_config(path).evaluation.max_length is None
    path.write_text(yaml.safe_dump({"stage1": run, "stage2": run}))
    assert [cfg.evaluation.max_length for cfg in read_stages(path).values()] == [32, 32]


@pytest.mark.parametrize("new", RENAMED.values())
def test_current_names_exist(new: str) -> None:
    module, _, name = new.rpartition(".")
    source = (ROOT / "src" / module.replace(".", "/")).with_suffix(".py").read_text()
    assert f"def {name}(" in source or f"class {name}(" in source


def test_first_names_only_concern_targets() -> None:
    new = "sts_lightning.testing.toy.ToyData"
    values = {"data": {"_target_": new, "name": new}, "list": [{"_target_": new}, 1, None]}
    old = "sts_lightning.data.toy.ToyData"
    assert first_names(values) == {
        "data": {"_target_": old, "name": new},
        "list": [{"_target_": old}, 1, None],
    }


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        (["model=tiny_bert", "data=toy"], "360415ee5f"),
        (
            ["model=tiny_mistral", "data=toy", "loss=infonce", "data.kind=triplets", "prompt=eol"],
            "0e68ae3785",
        ),
    ],
)
def test_job_folders_keep_their_names(overrides: list[str], name: str, config: Config) -> None:
    """Expected names are of the first names of the targets; they change only with what a run does."""
    assert job_folder(compose("train", ["name=x", *overrides], return_hydra_config=True)).name == name


def test_an_added_setting_without_effect_keeps_the_folder(config: Config) -> None:
    assert without_added({"optim": {"lr": 1.0, "stretch": 1.0}}) == {"optim": {"lr": 1.0}}
    assert without_added({"optim": {"stretch": 2.0}}) == {"optim": {"stretch": 2.0}}
    assert without_added({"optim": None, "name": "x"}) == {"optim": None, "name": "x"}
    composed = [config("callbacks=rank_monitor", "companion=teacher"), config(of="eval")]
    for *groups, key in ADDED:
        parents = [OmegaConf.select(cfg, ".".join(groups)) if groups else cfg for cfg in composed]
        assert any(parent is not None and key in parent for parent in parents), key
