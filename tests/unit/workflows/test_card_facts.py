"""What a run folder and the base model's folder say, for a model card."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from sts_lightning.core.errors import CheckpointError
from sts_lightning.data.counts import TrainingCount
from sts_lightning.export.card import card_facts, model_card
from sts_lightning.models.encoding import EncodingConfig
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from tests.support.card_runs import COUNT, SETTINGS, bare, write_run


def with_base(run: Path, name: str, **others: Any) -> None:
    settings = {**SETTINGS, **others, "model": {**SETTINGS["model"], "name": name}}
    RunFolder(run).config_file.write_text(yaml.safe_dump(settings))


def test_scores_have_intervals_and_the_recipe_its_values(tmp_path: Path) -> None:
    details = {"seed": 7, "steps": 80, "best_step": 60, "trained_on": [COUNT | {"dropped": {}}]}
    expected = write_run(tmp_path / "run", **details)
    facts = card_facts(tmp_path / "run")
    assert facts["intervals"].keys() == expected.keys()
    for name, interval in facts["intervals"].items():
        assert interval.low < expected[name] < interval.high
    assert facts["recipe"]["loss"] == "CoSENTLoss(scale=20.0)"
    assert [facts["recipe"][name] for name in ("data.batch_size", "optim.lr", "steps")] == [64, 5e-5, 80]
    assert (facts["recipe"]["prompt.pooling"], facts["recipe"]["data"]) == ("mean", "sts_train")
    assert "regularizer" not in facts["recipe"]
    assert not facts["mixed"]
    base = {"name": "owner/base", "hub_id": "owner/base", "revision": "abc123"}
    assert facts["base"] == base


def test_an_average_names_its_runs(tmp_path: Path) -> None:
    runs = ["runs/a", "runs/b"]
    write_run(tmp_path / "whole", averaged={"runs": runs, "share": 1.0})
    recipe = card_facts(tmp_path / "whole")["recipe"]
    assert (recipe["averaged.runs"], recipe["averaged.share"]) == ("a, b", 1.0)
    write_run(tmp_path / "half", averaged={"runs": runs, "share": 0.5})
    assert 0.5 in card_facts(tmp_path / "half")["recipe"].values()
    write_run(tmp_path / "with_start", wise_ft={"share": 0.7, "dev": {"1": 80.0, "0.7": 81.0}})
    assert 0.7 in card_facts(tmp_path / "with_start")["recipe"].values()
    assert [card_facts(tmp_path / name)["mixed"] for name in ("half", "with_start")] == [True, True]
    write_run(tmp_path / "trained", best_step=4, wise_ft={"share": 1.0, "dev": {"1": 81.0, "0.7": 80.0}})
    assert not card_facts(tmp_path / "trained")["mixed"]


def test_the_precisions_of_training_and_of_the_scores(tmp_path: Path) -> None:
    write_run(tmp_path / "run", precision="32-true", training={"precision": "bf16-mixed"})
    recipe = card_facts(tmp_path / "run")["recipe"]
    assert (recipe["training.precision"], recipe["precision"]) == ("bf16-mixed", "32-true")


def test_no_interval_of_another_number(tmp_path: Path) -> None:
    score = write_run(tmp_path / "run", aggregate="mean")["STSB"]
    run = RunFolder(tmp_path / "run")
    text = run.metrics_file.read_text()
    run.metrics_file.write_text(text.replace(str(score), str(score - 1)))
    assert card_facts(run.path)["intervals"].keys() == {"mine|<b>", "average"}
    run.predictions_file.unlink()
    assert card_facts(run.path)["intervals"] == {}


def test_a_run_without_results(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    RunFolder(tmp_path / "run").metrics_file.unlink()
    facts = card_facts(tmp_path / "run")
    assert (facts["metrics"], facts["intervals"]) == (RunMetrics(None), {})
    with pytest.raises(CheckpointError, match="not a run folder"):
        card_facts(tmp_path / "none")
    RunFolder(tmp_path / "run").metrics_file.write_text("{")
    with pytest.raises(CheckpointError, match=r"metrics\.json is broken"):
        card_facts(tmp_path / "run")


def test_the_place_of_a_base_is_not_shown(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    RunFolder(tmp_path / "run").predictions_file.unlink()
    (tmp_path / "private" / "base").mkdir(parents=True)
    with_base(tmp_path / "run", str(tmp_path / "private" / "base"))
    facts = card_facts(tmp_path / "run")
    assert facts["base"] == {"name": "base"}
    assert str(tmp_path) not in repr(facts)


@pytest.mark.parametrize(
    ("dropped", "words"),
    [
        ({}, ("not audited",)),
        ({"dev split": 5}, ("not audited",)),
        ({"in a test set (none)": 0}, ("not audited", "filter=none")),
        ({"in a test set (exact)": 4851}, ("4,851", "filter=exact", "near")),
        ({"in a test set (normalized)": 0}, ("0 pairs", "filter=normalized")),
    ],
)
def test_what_is_known_about_test_pairs(
    dropped: dict[str, int], words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "sts_lightning.json").write_text(json.dumps({"encoding": EncodingConfig().as_json()}))
    stages = [asdict(TrainingCount("x", "pairs", 5, dropped=dropped)), None]
    facts = bare(metrics=RunMetrics(None, None, {"trained_on": stages}))
    card = model_card(facts, "merged", None, "mine", tmp_path)
    first, second = (line for line in card.splitlines() if line.startswith(("| 1 |", "| 2 |")))
    assert all(word in first.rpartition(" | ")[2] for word in words)
    assert second.endswith("| not audited |")


def test_training_data_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "run")
    RunFolder(tmp_path / "run").predictions_file.unlink()
    data = {"_target_": "sts_lightning.data.hub_pairs.pairs_hub"}
    with_base(tmp_path / "run", "owner/base", data=data, path="owner/pairs")
    assert card_facts(tmp_path / "run")["datasets"] == ["owner/pairs"]
    (tmp_path / "owner" / "pairs").mkdir(parents=True)
    assert card_facts(tmp_path / "run")["datasets"] is None
