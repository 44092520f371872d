"""Checks of a run folder, each with the damage that it finds."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from sts_lightning.config.trust import NOTHING
from sts_lightning.data.readers.senteval import STSTask
from sts_lightning.models.loading import load_from
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.predictions import save_predictions
from sts_lightning.testing.toy import ToyData
from sts_lightning.workflows.scoring import score
from sts_lightning.workflows.verify import verify
from tests.shared_runs.entries import edit, write_finished
from tests.workflows.damage import DAMAGE, change_json, change_weights, cut, first

CHECKED = [
    "links",
    "config.yaml",
    "metrics.json",
    "history.csv",
    "checkpoints/best.ckpt",
    "checkpoints/last.ckpt",
    "checkpoints/step_1.ckpt",
    "weights",
    "predictions.npz",
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a finished run leaves, with the scores of its weights; nothing is trained."""
    run = RunFolder(tmp_path_factory.mktemp("runs") / "whole")
    write_finished(run.path)
    last = torch.load(run.checkpoint("last"), weights_only=True)
    last["optimizer_states"] = [{"state": {0: {"exp_avg": torch.zeros(3)}}}]
    torch.save(last, run.checkpoint("last"))
    torch.save(last | {"global_step": 1}, run.checkpoint(1))
    cfg = run.load_config()
    cfg.evaluation.final = True
    run.save_config(cfg)
    data = ToyData(**{str(name): value for name, value in cfg.data.items() if name != "_target_"})
    data.setup()
    (only,) = data.tests
    table = only.subsets[next(iter(only.subsets))]
    subsets = {"a": table.select(range(15)), "b": table.select(range(15, len(table)))}
    data.tests[:] = [STSTask(only.name, subsets)]
    found = score(load_from(run, cfg).eval(), data, cfg.evaluation)
    save_predictions(run, data.tests, found.test_cosines)
    run.save_metrics(RunMetrics(found.test, {**found.dev}, {"best_step": 2}))
    run.history_file.write_text("step,train/loss,dev/spearman\n0,,90.0\n1,0.5,50.0\n2,0.4,51.5\n")
    return run.path


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> RunFolder:
    return RunFolder(shutil.copytree(whole, tmp_path / "run"))


def outcomes(run: RunFolder, evaluate: bool = False) -> dict[str, tuple[str, str]]:
    return {check.name: (check.outcome, check.text) for check in verify(run, NOTHING, evaluate)}


def test_a_whole_run(run: RunFolder) -> None:
    found = outcomes(run)
    assert list(found) == CHECKED
    assert {outcome for outcome, _ in found.values()} == {"ok"}, found
    assert found["config.yaml"][1] == "of this version"
    assert found["predictions.npz"][1] == "40 pairs of 1 task give the stored scores"


def test_the_model_before_training_may_be_the_best(run: RunFolder) -> None:
    metrics = run.metrics()
    run.save_metrics(RunMetrics(metrics.test, metrics.dev, {"best_step": 0}))
    assert outcomes(run)["history.csv"][0] == "ok"


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_damage_is_found_where_it_is(damage: str, run: RunFolder) -> None:
    name, message, do = DAMAGE[damage]
    do(run)
    found = outcomes(run)
    assert found[name][0] == "wrong", found
    assert message in found[name][1]
    others = {other for other, (outcome, _) in found.items() if outcome == "wrong"} - {name}
    assert others <= ({"checkpoints/best.ckpt"} if name == "history.csv" else set())
    assert not [check for check in found if found[check][0] == "not checked" and found[check][1] == ""]


def test_a_run_of_an_earlier_version(run: RunFolder) -> None:
    """With a target that has moved since, and without settings that were added."""

    def former(cfg: dict[str, Any]) -> None:
        cfg["model"]["_target_"] = "sts_lightning.models.tiny_bert.tiny_bert"
        del cfg["optim"]["stretch"], cfg["optim"]["eps"]

    edit(run.config_file, former)
    change_json(run, lambda values: values["test"]["tasks"]["toy"].pop("subsets"))
    found = outcomes(run)
    assert {outcome for outcome, _ in found.values()} == {"ok"}, found
    assert found["config.yaml"][1] == "of an earlier version, without optim.eps, optim.stretch"


@pytest.mark.parametrize("aggregate", ["mean", "wmean"])
def test_other_aggregates_are_computed_again(aggregate: str, run: RunFolder) -> None:
    def average(values: dict[str, Any]) -> None:
        task = values["test"]["tasks"]["toy"]
        one, two = task["subsets"].values()
        weights = (1, 1) if aggregate == "mean" else (15, 25)
        for key in ("spearman", "pearson"):
            task[key] = (weights[0] * one[key] + weights[1] * two[key]) / sum(weights)
        values["test"] |= {"aggregate": aggregate, "average": task["spearman"]}

    assert outcomes(run)["predictions.npz"][0] == "ok"
    change_json(run, average)
    assert outcomes(run)["predictions.npz"][0] == "ok"


def test_sentences_encoded_again(run: RunFolder) -> None:
    outcome, text = outcomes(run, evaluate=True)["evaluation"]
    assert (outcome, text.startswith("dev and test scores differ by at most 0.0")) == ("ok", True), text
    change_weights(run, "best", lambda values: first(values).mul_(-1).add_(torch.randn(first(values).shape)))
    outcome, text = outcomes(run, evaluate=True)["evaluation"]
    assert outcome == "wrong"
    assert "but computed again it is" in text


def test_what_is_not_on_this_machine_is_not_checked(run: RunFolder) -> None:
    def elsewhere(cfg: dict[str, Any]) -> None:
        target = "sts_lightning.models.SentenceEncoder.from_pretrained"
        cfg["model"] = {"_target_": target, "name": "/no/such/model", "pooling": "mean"}

    edit(run.config_file, elsewhere)
    found = outcomes(run)
    assert found["weights"][0] == "not checked"
    assert "/no/such/model" in found["weights"][1]


def test_stages_and_evaluations(run: RunFolder, tmp_path: Path) -> None:
    both = tmp_path / "both"
    both.mkdir()
    stage = yaml.safe_load(run.config_file.read_text())
    (both / "stages.yaml").write_text(yaml.safe_dump({"one": stage, "two": stage}))
    for name in ("one", "two"):
        shutil.copytree(run.path, both / name)
    cut(both / "two" / "checkpoints" / "last.ckpt")
    found = outcomes(RunFolder(both))
    assert [name for name in found if found[name][0] != "ok"] == ["two: checkpoints/last.ckpt"]
    assert len(found) == 1 + 2 * len(CHECKED)
    (both / "stages.yaml").write_text("../one: {}\n")
    assert outcomes(RunFolder(both))["stages.yaml"][0] == "wrong"
    evaluation = RunFolder(tmp_path / "evaluation")
    evaluation.path.mkdir()
    evaluation.config_file.write_text("suite: sts\naggregate: all\n")
    evaluation.save_metrics(RunMetrics({"tasks": {}, "average": 70.0}))
    assert [name for name, (outcome, _) in outcomes(evaluation).items() if outcome == "ok"] == CHECKED[:3]


def test_nothing_is_written(run: RunFolder) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    outcomes(run, evaluate=True)
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == before
