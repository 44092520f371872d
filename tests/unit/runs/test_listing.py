"""Lists of runs, on folders written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from sts_lightning.config.check import format_value
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.listing import distinguishing, find_runs, group_seeds
from sts_lightning.runs.metrics import RunMetrics

PEARSON = {"_target_": "sts_lightning.losses.pearson.PearsonLoss"}
INFONCE = {"_target_": "sts_lightning.losses.infonce.InfoNCELoss", "temperature": 0.05}


def settings(seed: int, **changed: Any) -> dict[str, Any]:
    model = {"_target_": "sts_lightning.testing.tiny_bert.tiny_bert", "max_length": 32}
    whole = {
        "seed": seed,
        "name": f"run{seed}",
        "model": model,
        "prompt": {},
        "data": {"_target_": "sts_lightning.testing.toy.toy", "seed": seed},
        "evaluation": {"max_length": 64},
    }
    return {**whole, "loss": PEARSON, "optim": {"lr": 1e-5}, "init_from": None, **changed}


def write(
    path: Path, values: dict[str, Any], dev: float | None = None, content: dict[str, Any] | None = None
) -> None:
    """A run folder; without a score, one that was only started."""
    path.mkdir(parents=True)
    run = RunFolder(path)
    run.save_config(OmegaConf.create(values))
    if dev is not None:
        test = {"average": dev - 10, "tasks": {"STSB": {"spearman": dev - 10}}}
        details = {"wall_seconds": 60.0 * dev} | ({} if content is None else {"content": content})
        run.save_metrics(RunMetrics(test, {"spearman": dev, "pearson": dev}, details))


def test_seeds_are_grouped_with_mean_and_deviation(tmp_path: Path) -> None:
    for seed, dev in ((1, 80.0), (2, 81.0), (3, 85.0)):
        write(tmp_path / f"pearson{seed}", settings(seed), dev)
    write(tmp_path / "fast", settings(1, optim={"lr": 1e-4}), 70.0)
    write(tmp_path / "unfinished", settings(4))
    fast, pearson, unfinished = group_seeds(find_runs(tmp_path))
    assert pearson.seeds == [1, 2, 3]
    assert (pearson.mean("dev"), pearson.mean("average"), pearson.mean("minutes")) == (82.0, 72.0, 82.0)
    assert pearson.deviation("dev") == pytest.approx(7**0.5)  # (4 + 1 + 9) / 2
    assert (fast.settings, pearson.settings) == ({"optim.lr": 1e-4}, {"optim.lr": 1e-5})
    assert (unfinished.runs[0].state, unfinished.mean("dev")) == ("started", None)


def test_runs_on_other_rows_are_other_groups(tmp_path: Path) -> None:
    """As before and after a file was corrected; files are told apart by their rows alone."""
    for seed, train in ((1, "old"), (2, "new"), (3, "new")):
        content = {"train": train, "dev": "d", "tests": {}, "files": {"path": f"{seed}"}}
        write(tmp_path / str(seed), settings(seed), 80.0 + seed, content)
    old, new = group_seeds(find_runs(tmp_path))
    assert (old.seeds, new.seeds) == ([1], [2, 3])
    assert list(old.settings) == list(new.settings) == ["content"]
    assert old.settings != new.settings
    (tmp_path / "1" / "metrics.json").write_text((tmp_path / "2" / "metrics.json").read_text())
    [one] = group_seeds(find_runs(tmp_path))
    assert (one.seeds, one.settings) == ([1, 2, 3], {})


def test_a_dev_split_of_another_seed_is_another_setting(tmp_path: Path) -> None:
    """While the order of batches of other data follows the seed of the run."""
    for seed in (1, 2):
        for name, data in (
            ("split", {"dev_fraction": 0.1, "seed": 1}),
            ("own", {"dev_fraction": 0.1, "seed": seed}),
        ):
            write(tmp_path / f"{name}{seed}", settings(seed, data=data, optim={"lr": len(name)}), 80.0)
    assert sorted(len(group.runs) for group in group_seeds(find_runs(tmp_path))) == [1, 1, 2]


def test_runs_that_start_from_seeds_of_one_system_are_one_system(tmp_path: Path) -> None:
    for seed in (1, 2):
        write(tmp_path / f"first{seed}", settings(seed), 70.0)
        start = {"init_from": str(tmp_path / f"first{seed}")}
        write(tmp_path / f"second{seed}", settings(seed, loss=INFONCE, **start), 80.0)
    first, second = group_seeds(find_runs(tmp_path))
    assert (len(first.runs), len(second.runs)) == (2, 2)
    assert second.settings["loss"] == "InfoNCELoss"


def test_seeds_of_chains_of_five_runs_are_grouped(tmp_path: Path) -> None:
    """Also in a list without the runs before; not with a run of other settings at the start."""
    for seed, rate in ((1, 1e-3), (2, 1e-3), (3, 1e-2)):
        start = None
        for number in range(5):
            folder = tmp_path / ("before" if number < 4 else "last") / f"{seed}-{number}"
            lr = {"optim": {"lr": rate if number == 0 else 1e-5 * number}}
            write(folder, settings(seed, init_from=start, **lr), 70.0 + number)
            start = str(folder)
    for found in (find_runs(tmp_path), find_runs(tmp_path / "last")):
        seeds = [group.seeds for group in group_seeds(found) if "last" in str(group.runs[0].folder.path)]
        assert seeds == [[1, 2], [3]]


def test_evaluations_are_told_from_trainings_by_the_model_alone(tmp_path: Path) -> None:
    write(tmp_path / "slow", settings(1), 80.0)
    write(tmp_path / "fast", settings(1, optim={"lr": 1e-4}), 70.0)
    evaluation = {"suite": "sts", "aggregate": "all", "model": {**settings(1)["model"], "max_length": 16}}
    write(tmp_path / "start", evaluation, 60.0)
    fast, slow, start = group_seeds(find_runs(tmp_path))
    assert start.settings == {"model.max_length": 16}
    assert fast.settings == {"model.max_length": 32, "optim.lr": 1e-4}
    assert slow.settings == {"model.max_length": 32, "optim.lr": 1e-5}


def test_an_evaluation_of_a_run_does_not_show_a_model_that_it_did_not_read(tmp_path: Path) -> None:
    evaluation = {"suite": "sts", "aggregate": "all", "model": {**settings(1)["model"], "max_length": 16}}
    write(tmp_path / "of_run", {**evaluation, "ckpt": "runs/a"}, 60.0)
    [found] = find_runs(tmp_path)
    assert [key for key in found.settings if key.startswith(("model", "prompt"))] == []
    assert found.settings["ckpt"] == "runs/a"


def test_averages_of_other_runs_or_shares_are_not_seeds_of_one(tmp_path: Path) -> None:
    test = {"average": 70.0, "tasks": {"STSB": {"spearman": 70.0}}}
    for name, parent, alpha in (("one", "A/s1", 0.1), ("share", "A/s1", 0.6), ("other", "B/s1", 0.1)):
        write(tmp_path / name, settings(1))
        details = {"averaged": {"runs": [parent], "share": alpha}, "wall_seconds": 1.0}
        RunFolder(tmp_path / name).save_metrics(
            RunMetrics(test, {"spearman": 80.0, "pearson": 80.0}, details)
        )
    assert len(group_seeds(find_runs(tmp_path))) == 3


def test_broken_runs_are_listed_with_the_reason(tmp_path: Path) -> None:
    write(tmp_path / "whole", settings(1), 80.0)
    write(tmp_path / "broken", settings(1), 80.0)
    (tmp_path / "broken" / "metrics.json").write_text('{"dev": ')
    write(tmp_path / "torn", settings(1))
    (tmp_path / "torn" / "config.yaml").write_text("model: [")
    broken, torn, whole = find_runs(tmp_path)
    assert "metrics.json is broken" in broken.problem
    assert "config.yaml cannot be read" in torn.problem
    assert (whole.problem, whole.settings["seed"]) == ("", 1)


def test_folders_being_written_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "run", settings(1), 80.0)
    write(tmp_path / ".mean.a1b2" / "mean", settings(2))
    assert [run.folder.path for run in find_runs(tmp_path)] == [tmp_path / "run"]


def test_stages_of_0_3_are_runs(tmp_path: Path) -> None:
    write(tmp_path / "run" / "stage1", settings(1), 70.0)
    write(tmp_path / "run" / "stage2", settings(1, optim={"lr": 2.0}), 80.0)
    (tmp_path / "run" / "stages.yaml").write_text("stage1: {seed: 1}\nstage2: {seed: 1}\n")
    assert [run.folder.path.name for run in find_runs(tmp_path)] == ["stage1", "stage2"]


def test_values_are_shown_as_on_the_command_line() -> None:
    assert [format_value(value) for value in (None, True, 1e-5, "a")] == ["null", "true", "1e-05", "a"]


def test_settings_are_compared_within_a_class() -> None:
    runs = [
        {"loss._target_": "a.One", "loss.scale": 1, "lr": 1},
        {"loss._target_": "a.Two", "loss.margin": 2, "lr": 1},
    ]
    assert distinguishing(runs) == [{"loss": "One"}, {"loss": "Two"}]
    third = {"loss._target_": "a.Two", "loss.margin": 3, "lr": 1}
    assert distinguishing([*runs, third])[1:] == [
        {"loss": "Two", "loss.margin": 2},
        {"loss": "Two", "loss.margin": 3},
    ]
    assert distinguishing([{"lr": 1}, {"lr": 1, "extra": 5}]) == [{}, {"extra": 5}]  # added by hand
