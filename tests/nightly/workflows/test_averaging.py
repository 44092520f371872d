"""Averages of the weights of runs, on folders without training."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import sts_lightning
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.average import average_runs
from sts_lightning.workflows.verify import verify
from tests.support.averaged_runs import dev_of, write_run
from tests.support.whole_runs import metrics, weights


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three runs around the same model; the last one far from it."""
    folder = tmp_path_factory.mktemp("runs")
    noises = (0.02, 0.02, 0.5)
    return [write_run(folder / f"seed{seed}", noise, seed) for seed, noise in enumerate(noises)]


def mean(runs: list[Path]) -> dict[str, torch.Tensor]:
    parts = [weights(run) for run in runs]
    return {
        name: torch.stack([part[name] for part in parts]).double().mean(0).to(value.dtype)
        if value.is_floating_point()
        else value
        for name, value in parts[0].items()
    }


def test_the_mean_of_runs(runs: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "mean"
    scores = average_runs(runs, folder)
    for name, value in mean(runs).items():
        torch.testing.assert_close(weights(folder)[name], value, rtol=1e-6, atol=1e-8)
    expected = {str(run): dev_of(run, weights(run)) for run in runs}
    expected["average, share 1"] = dev_of(runs[0], mean(runs))
    assert scores == pytest.approx(expected)
    found = metrics(folder)
    assert found["dev"]["spearman"] == pytest.approx(expected["average, share 1"])
    assert found["averaged"] == {"runs": [str(run) for run in runs], "share": 1.0}
    assert RunFolder(folder).metrics().details["averaged"]["runs"] == [str(run) for run in runs]
    assert found["trained_on"] == [
        {"source": "toy", "unit": "pairs", "rows": 32, "published": None, "dropped": {}}
    ]
    assert [cost["run"] for cost in found["earlier"]] == [str(run) for run in runs]


def test_an_average_is_not_rounded_to_the_precision_of_its_scores(tmp_path: Path) -> None:
    half = {"evaluation": {"precision": "bf16-true"}}
    parents = [write_run(tmp_path / name, 0.01, seed, half) for seed, name in enumerate(("one", "two"))]
    average_runs(parents, tmp_path / "mean")
    for name, value in mean(parents).items():
        torch.testing.assert_close(weights(tmp_path / "mean")[name], value, rtol=1e-6, atol=1e-8)


def test_a_run_that_parents_start_from_costs_once(tmp_path: Path) -> None:
    shared = {"run": "first", "wall_seconds": 100.0, "peak_memory_bytes": None}
    parents = [write_run(tmp_path / name, 0.01, seed) for seed, name in enumerate(("one", "two"))]
    for parent in parents:
        found = RunFolder(parent).metrics()
        RunFolder(parent).save_metrics(replace(found, details={**found.details, "earlier": [shared]}))
    average_runs(parents, tmp_path / "mean")
    costs = metrics(tmp_path / "mean")["earlier"]
    assert [cost["run"] for cost in costs] == ["first", str(parents[0]), str(parents[1])]


def test_the_folder_is_that_of_a_finished_run(runs: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "mean"
    average_runs(runs[:2], folder, [0.5])
    assert "model" in dict(verify(RunFolder(folder)))
    assert RunFolder(folder).finished
    vectors = sts_lightning.load(folder).encode(["The boy hid a rug .", "A farmer ."])
    assert vectors.shape[0] == 2
    assert np.isfinite(vectors).all()
    assert len(average_runs([folder, runs[2]], tmp_path / "second")) == 3  # it is a run like others


def test_with_start_interpolates_and_selects_by_dev(runs: list[Path], tmp_path: Path) -> None:
    run, folder = runs[2], tmp_path / "half"
    shares = [0.0, 0.25, 0.5]
    scores = average_runs([run], folder, shares)
    cfg = RunFolder(run).load_config()
    start = {
        f"encoder.{name}": value for name, value in build_encoder(cfg.model, cfg.prompt).state_dict().items()
    }
    tuned = weights(run)

    def mixed(share: float) -> dict[str, torch.Tensor]:
        return {
            name: (1 - share) * start[name] + share * value if value.is_floating_point() else value
            for name, value in tuned.items()
        }

    expected = {share: dev_of(run, mixed(share)) for share in (1.0, *shares)}
    found = [scores[f"average, share {share:g}"] for share in expected]
    assert found == pytest.approx(list(expected.values()), abs=1e-3)
    selected = metrics(folder)["averaged"]["share"]
    assert selected < 1
    assert expected[selected] == max(expected.values())
    for name, value in mixed(selected).items():
        torch.testing.assert_close(weights(folder)[name], value)


def test_the_start_is_that_of_init_from(runs: list[Path], tmp_path: Path) -> None:
    run = write_run(tmp_path / "second", 0.5, 9)
    text = RunFolder(run).config_file.read_text()
    RunFolder(run).config_file.write_text(text.replace("init_from: null", f"init_from: {runs[0]}"))
    average_runs([run], tmp_path / "start", [0.0])
    assert metrics(tmp_path / "start")["averaged"]["share"] == 0.0
    for name, value in weights(runs[0]).items():
        assert torch.equal(weights(tmp_path / "start")[name], value)


def test_a_full_disk_leaves_nothing(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(RunFolder, "save_metrics", full)
        average_runs(runs[:2], tmp_path / "mean")
    assert not list(tmp_path.iterdir())
    average_runs(runs[:2], tmp_path / "mean")
    assert RunFolder(tmp_path / "mean").finished
