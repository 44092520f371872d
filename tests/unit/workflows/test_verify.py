"""Checks of a run folder, each with the damage that it finds."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from peft import LoraConfig

from sts_lightning.core.errors import UserError
from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.evaluation.score import score_data
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.folder import write_model
from sts_lightning.models.loading.run import load
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.predictions import save_dev, save_predictions
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.assembly import make_data
from sts_lightning.workflows.verify import verify
from tests.support.damage import DAMAGE, change_json, cut
from tests.support.run_entries import write_finished

CHECKED = ["config.yaml", "metrics.json", "model", "predictions.npz"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a finished run leaves, with the scores of its weights; nothing is trained."""
    run = RunFolder(tmp_path_factory.mktemp("runs") / "whole")
    write_finished(run.path)
    cfg = run.load_config()
    cfg.evaluation.final = True
    run.save_config(cfg)
    data = make_data(cfg)
    data.setup()
    (only,) = data.tests
    table = only.subsets[next(iter(only.subsets))]
    subsets = {"a": table[:15], "b": table[15:]}
    data.tests[:] = [STSTask(only.name, subsets)]
    found = score_data(load(run.path), data, cfg.evaluation)
    save_predictions(run, data.tests, found.test_found)
    run.save_metrics(RunMetrics(found.test, {**found.dev}, {"best_step": 2}))
    return run.path


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> RunFolder:
    return RunFolder(shutil.copytree(whole, tmp_path / "run"))


def outcomes(run: RunFolder) -> dict[str, str]:
    """What is said of each thing, and under ``wrong`` what ended the checks."""
    found: dict[str, str] = {}
    try:
        found.update(verify(run))
    except UserError as error:
        found["wrong"] = str(error)
    return found


def test_a_whole_run(run: RunFolder) -> None:
    found = outcomes(run)
    assert list(found) == CHECKED
    assert found["predictions.npz"] == "40 predictions of 1 task give the stored scores"


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_damage_is_found_where_it_is(damage: str, run: RunFolder) -> None:
    name, message, do = DAMAGE[damage]
    do(run)
    found = outcomes(run)
    assert message in found["wrong"]
    assert list(found) == [*CHECKED[: CHECKED.index(name)], "wrong"]  # what depends on it is not looked at


@pytest.mark.parametrize("aggregate", ["mean", "wmean"])
def test_other_aggregates_are_computed_again(aggregate: str, run: RunFolder) -> None:
    def average(values: dict[str, Any]) -> None:
        task = values["test"]["tasks"]["toy"]
        one, two = task["subsets"].values()
        weights = (1, 1) if aggregate == "mean" else (15, 25)
        for key in ("spearman", "pearson"):
            task[key] = (weights[0] * one[key] + weights[1] * two[key]) / sum(weights)
        values["test"] |= {"aggregate": aggregate, "average": task["spearman"]}

    change_json(run, average)
    assert list(outcomes(run)) == CHECKED


def test_what_is_not_on_this_machine_is_not_checked(run: RunFolder, tmp_path: Path) -> None:
    tiny, base = tiny_bert(), tmp_path / "base"
    tiny.backbone.save_pretrained(str(base))
    tiny.tokenizer.tokenizer.save_pretrained(base)
    lora = LoraConfig(target_modules=["query"])
    write_model(SentenceEncoder.from_pretrained(str(base), adapter=lora), run.model())
    assert "finite" in outcomes(run)["model"]
    shutil.rmtree(base)
    found = outcomes(run)["model"]
    assert found.startswith("not checked")
    assert str(base) in found


def test_stages_and_evaluations(tmp_path: Path) -> None:
    both = tmp_path / "both"
    both.mkdir()
    (both / "stages.yaml").write_text("one: {}\ntwo: {}\n")
    assert outcomes(RunFolder(both)) == {"wrong": f"{both} holds stages of 0.3; open {both}/two."}
    evaluation = RunFolder(tmp_path / "evaluation")
    evaluation.path.mkdir()
    evaluation.config_file.write_text("suite: sts\naggregate: all\n")
    evaluation.save_metrics(RunMetrics({"tasks": {}, "average": 70.0}))
    assert list(outcomes(evaluation)) == CHECKED[:2]


def test_nothing_is_written(run: RunFolder) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    outcomes(run)
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == before


def test_settings_that_resuming_rejects_are_wrong(run: RunFolder) -> None:
    text = run.config_file.read_text()
    for changed, said in (
        (("optim", 3), "its optim cannot be"),
        (("loss", {"_target_": "os.system"}), "os.system"),
    ):
        run.config_file.write_text(yaml.safe_dump({**yaml.safe_load(text), changed[0]: changed[1]}))
        found = outcomes(run)
        assert list(found) == ["wrong"]
        assert said in found["wrong"]


def test_dev_data_that_cannot_be_read(run: RunFolder) -> None:
    save_dev(run, 2, (np.ones(3), np.arange(3.0)), selected=True)
    assert outcomes(run)["dev.npz"] == "dev data of the weights: selected"
    cut(run.dev_file)
    assert "dev.npz is broken" in outcomes(run)["wrong"]
