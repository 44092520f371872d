"""Run folders that release 0.3.0 left; tools/make_old_runs.py made them."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import DictConfig
from sentence_transformers import SentenceTransformer

import sts_lightning
from sts_lightning.cli.main import main
from sts_lightning.config.check import check_config
from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.export.export import export
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.evaluate import evaluate_in
from tests.conftest import ROOT
from tests.support.whole_runs import metrics

FIXTURES = Path("tests/fixtures/runs_0.3.0")
RUNS = sorted({path.stem for path in (ROOT / FIXTURES).glob("*.json")} - {"interrupted"})
LAST = {"stages": "stages/stage2"}
"""Folders of runs that are called otherwise."""

Config = Callable[..., DictConfig]
Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy, under the path by which the runs name their files."""
    shutil.copytree(ROOT / FIXTURES, tmp_path / FIXTURES)
    monkeypatch.chdir(tmp_path)
    return FIXTURES


def expected(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_text())
    return loaded


def same_vectors(folder: Path, name: str) -> None:
    vectors = sts_lightning.load(folder).encode(expected(name)["sentences"])
    np.testing.assert_allclose(vectors, expected(name)["vectors"], atol=1e-5)


def folder_of(name: str) -> Path:
    return FIXTURES / LAST.get(name, name)


def evaluated(config: Config, *overrides: str) -> float:
    settings = [f"test={FIXTURES}/pairs.csv", "data_root=data", *overrides]
    return evaluate_in(Path("scores"), config(*settings, of="eval"))


@pytest.mark.parametrize("name", RUNS)
def test_loads_with_the_vectors_of_the_release(name: str) -> None:
    same_vectors(folder_of(name), name)


def test_the_folder_of_stages_names_the_last_one(runs: Path, cli: Cli, config: Config) -> None:
    message = "stages holds stages of 0.3; open .*stages/stage2"
    for read in (
        lambda: sts_lightning.load(runs / "stages"),
        lambda: evaluated(config, f"ckpt={runs / 'stages'}"),
        lambda: export(runs / "stages", Path("out"), "merged"),
    ):
        with pytest.raises(CheckpointError, match=message):
            read()
    resumed = cli("train.py", f"resume={runs / 'stages'}")
    assert "holds stages of 0.3; open" in resumed.stderr


@pytest.mark.parametrize("name", RUNS)
def test_evaluates_to_the_score_of_the_release(name: str, config: Config) -> None:
    assert evaluated(config, f"ckpt={folder_of(name)}") == pytest.approx(expected(name)["pairs"], abs=1e-3)


def test_a_kept_step_evaluates_to_the_score_of_the_release(runs: Path, config: Config) -> None:
    before = metrics(runs / "eval_step")["test"]["average"]
    assert before != pytest.approx(metrics(runs / "eval")["test"]["average"], abs=1)
    assert evaluated(config, f"ckpt={runs / 'bert'}", "step=5") == pytest.approx(before, abs=1e-3)


@pytest.mark.parametrize("name", RUNS)
def test_exports_with_the_vectors_of_the_release(name: str) -> None:
    main(["export", str(folder_of(name)), "out", "--format", "sentence-transformers"])
    same_vectors(Path("out"), name)
    theirs = SentenceTransformer("out", device="cpu", trust_remote_code=True)
    np.testing.assert_allclose(
        theirs.encode(expected(name)["sentences"]), expected(name)["vectors"], atol=1e-5
    )


@pytest.mark.parametrize("name", RUNS)
def test_is_whole(name: str) -> None:
    main(["runs", "check", str(folder_of(name))])  # which exits where anything is wrong


def test_all_are_listed(runs: Path) -> None:
    main(["runs", "list", str(runs), "--csv", "table.csv"])
    with Path("table.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    listed = {Path(row["run"]).name: float(row["dev"] or "nan") for row in rows}
    dev = {folder_of(name).name: expected(name)["dev"] for name in RUNS}
    assert np.isfinite(listed.pop("stage1"))
    assert np.isnan([listed.pop(name) for name in ("interrupted", "eval", "eval_step")]).all()
    assert listed == pytest.approx(dev)


def test_an_interrupted_run_is_resumed_to_the_numbers_of_the_release(
    runs: Path, config: Config, cli: Cli
) -> None:
    """The run beside it has the same settings, but for the intervals of its checkpoints."""
    interrupted = str(runs / "interrupted")
    for read in (
        lambda: sts_lightning.load(interrupted),
        lambda: evaluated(config, f"ckpt={interrupted}"),
        lambda: export(Path(interrupted), Path("out"), "merged"),
    ):
        with pytest.raises(CheckpointError, match=f"has not finished; resume={interrupted} finishes it"):
            read()
    resumed = cli("train.py", f"resume={runs / 'interrupted'}")
    assert resumed.returncode == 0, resumed.stderr
    ended, whole = metrics(runs / "interrupted"), metrics(runs / "bert")
    assert (ended["resumed"], ended["steps"], ended["best_step"]) == (True, 8, whole["best_step"])
    assert ended["dev"] == pytest.approx(whole["dev"], abs=1e-3)
    assert ended["test"]["average"] == pytest.approx(whole["test"]["average"], abs=1e-3)
    for left, right in zip(*(RunFolder(runs / n).history() for n in ("interrupted", "bert")), strict=True):
        for key in ("step", "dev/spearman", "train/loss"):
            assert left.get(key) == pytest.approx(right.get(key), abs=1e-3), (left["step"], key)
    assert (runs / "interrupted" / "model").is_dir()
    same_vectors(runs / "interrupted", "bert")


def test_a_new_run_starts_from_an_old_one(runs: Path, cli: Cli) -> None:
    short = ["data=toy", "data.train_size=64", "data.dev_size=20", "data.test_size=20", "data_root=data"]
    model = ["model=tiny_bert", "model.hidden_size=8", "model.layers=1", "logger=csv", "trainer.max_steps=2"]
    done = cli("train.py", *model, *short, f"init_from={runs / 'bert'}", "hydra.run.dir=new")
    assert done.returncode == 0, done.stderr
    assert metrics(Path("new"))["dev_untuned"] == pytest.approx(expected("bert")["dev"], abs=1e-3)


def test_a_run_that_pairs_of_five_kinds_selected(runs: Path, config: Config) -> None:
    path = runs / "pairs" / "config.yaml"
    path.write_text(path.read_text().replace("dev: stsb\n", "dev: suite\n"))
    assert evaluated(config, f"ckpt={runs / 'pairs'}") == pytest.approx(expected("pairs")["pairs"], abs=1e-3)
    main(["runs", "list", str(runs), "--csv", "table.csv"])
    assert "pairs," in Path("table.csv").read_text()
    with pytest.raises(ConfigError, match=r"dev=suite: Input .*\. dev=stsb_clean has no"):
        check_config(RunFolder(runs / "pairs").load_config())
