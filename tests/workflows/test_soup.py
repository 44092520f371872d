"""Averages of runs, on folders without training."""

from __future__ import annotations

import errno
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import sts_lightning
from sts_lightning.config.trust import NOTHING
from sts_lightning.models.loading import build_encoder
from sts_lightning.runs.calibration_file import fingerprint
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.soup import Candidate, Soup, make_soup
from sts_lightning.workflows.soup_parents import read_parents
from sts_lightning.workflows.verify import verify
from tests.scenarios.helpers import metrics, weights
from tests.workflows.soup_runs import dev_of, write_run

pytestmark = pytest.mark.slow  # each takes one or two seconds


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


def test_uniform(runs: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "soup"
    soup = make_soup(read_parents(runs, NOTHING), folder)
    for name, value in mean(runs).items():
        torch.testing.assert_close(weights(folder)[name], value, rtol=1e-6, atol=1e-8)
    assert soup.singles == pytest.approx([dev_of(run, weights(run)) for run in runs])
    expected = dev_of(runs[0], mean(runs))
    assert [candidate.dev for candidate in soup.tried] == [pytest.approx(expected)]
    found = metrics(folder)
    assert found["dev"]["spearman"] == pytest.approx(expected)
    assert [parent["averaged"] for parent in found["soup"]["parents"]] == [True] * 3
    prints = [parent["fingerprint"] for parent in found["soup"]["parents"]]
    assert prints == [fingerprint(RunFolder(run)) for run in runs]
    assert len(set(prints)) == 3
    assert RunFolder(folder).metrics().averaged == tuple(str(run) for run in runs)
    assert found["trained_on"] == [
        {"source": "toy", "unit": "pairs", "rows": 32, "published": None, "dropped": {}}
    ]
    assert [cost["run"] for cost in found["earlier"]] == [str(run) for run in runs]


def test_a_stage_that_parents_share_costs_once(tmp_path: Path) -> None:
    shared = {"run": "first", "wall_seconds": 100.0, "peak_memory_bytes": None}
    parents = [write_run(tmp_path / name, 0.01, seed) for seed, name in enumerate(("one", "two"))]
    for parent in parents:
        found = RunFolder(parent).metrics()
        RunFolder(parent).save_metrics(replace(found, details={**found.details, "earlier": [shared]}))
    make_soup(read_parents(parents, NOTHING), tmp_path / "soup")
    costs = metrics(tmp_path / "soup")["earlier"]
    assert [cost["run"] for cost in costs] == ["first", str(parents[0]), str(parents[1])]


def test_the_folder_is_that_of_a_finished_run(runs: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "soup"
    make_soup(read_parents(runs[:2], NOTHING), folder, alphas=[0.5])
    checks = list(verify(RunFolder(folder), NOTHING, evaluate=True))
    assert {check.outcome for check in checks} == {"ok"}, checks
    assert RunFolder(folder).finished
    vectors = sts_lightning.load(folder).encode(["The boy hid a rug .", "A farmer ."])
    assert vectors.shape[0] == 2
    assert np.isfinite(vectors).all()
    again = make_soup(read_parents([folder, runs[2]], NOTHING), tmp_path / "second")  # a run like others
    assert len(again.tried) == 1


def test_greedy_leaves_out_what_lowers_dev(runs: list[Path], tmp_path: Path) -> None:
    soup = make_soup(read_parents(runs, NOTHING), tmp_path / "soup", greedy=True)
    order = sorted(range(3), key=lambda number: -soup.singles[number])
    kept, score, tried = [order[0]], soup.singles[order[0]], [score_of(soup, 0)]
    for step, number in enumerate(order[1:], 1):
        dev = dev_of(runs[0], mean([runs[one] for one in (*kept, number)]))
        tried.append(score_of(soup, step))
        assert tried[-1] == pytest.approx(dev)
        if dev >= score:
            kept, score = [*kept, number], dev
    assert soup.best.members == tuple(kept)
    assert soup.best.dev == max(tried)
    assert len(kept) < 3  # the one that is far away
    torch.testing.assert_close(weights(tmp_path / "soup"), mean([runs[one] for one in kept]))
    averaged = [parent["averaged"] for parent in metrics(tmp_path / "soup")["soup"]["parents"]]
    assert averaged == [number in kept for number in range(3)]
    history = RunFolder(tmp_path / "soup").history()
    assert [row["soup/runs"] for row in history] == [len(one.members) for one in soup.tried]


def score_of(soup: Soup, step: int) -> float:
    return soup.tried[step].dev


def test_with_start_interpolates_and_selects_by_dev(runs: list[Path], tmp_path: Path) -> None:
    run, folder = runs[2], tmp_path / "half"
    alphas = [0.0, 0.25, 0.5]
    soup = make_soup(read_parents([run], NOTHING), folder, alphas=alphas)
    cfg = RunFolder(run).load_config()
    start = {
        f"encoder.{name}": value for name, value in build_encoder(cfg.model, cfg.prompt).state_dict().items()
    }
    tuned = weights(run)

    def mixed(alpha: float) -> dict[str, torch.Tensor]:
        return {
            name: (1 - alpha) * start[name] + alpha * value if value.is_floating_point() else value
            for name, value in tuned.items()
        }

    assert [candidate.alpha for candidate in soup.tried] == [1.0, *alphas]
    expected = [dev_of(run, mixed(candidate.alpha)) for candidate in soup.tried]
    assert [candidate.dev for candidate in soup.tried] == pytest.approx(expected, abs=1e-3)
    assert soup.best.alpha < 1
    assert soup.best.dev == max(candidate.dev for candidate in soup.tried)
    for name, value in mixed(soup.best.alpha).items():
        torch.testing.assert_close(weights(folder)[name], value)
    assert metrics(folder)["soup"]["alpha"] == soup.best.alpha


def test_the_start_is_that_of_init_from(runs: list[Path], tmp_path: Path) -> None:
    run = write_run(tmp_path / "second", 0.5, 9)
    text = RunFolder(run).config_file.read_text()
    RunFolder(run).config_file.write_text(text.replace("init_from: null", f"init_from: {runs[0]}"))
    soup = make_soup(read_parents([run], NOTHING), tmp_path / "start", alphas=[0.0])
    assert soup.best.alpha == 0.0
    for name, value in weights(runs[0]).items():
        assert torch.equal(weights(tmp_path / "start")[name], value)


def test_heads_are_averaged_if_all_runs_have_the_same(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name, 0.01, seed) for seed, name in enumerate("abc")]
    for folder, shape in zip(folders, (3, 3, 4), strict=True):
        path = RunFolder(folder).checkpoint("best")
        checkpoint = torch.load(path, weights_only=True)
        checkpoint["state_dict"]["loss.head.weight"] = torch.full((1, shape), float(len(folder.name) + shape))
        torch.save(checkpoint, path)
    parents = read_parents(folders, NOTHING)
    make_soup(parents[:2], tmp_path / "same")
    assert weights(tmp_path / "same")["loss.head.weight"].tolist() == [[4.0] * 3]
    make_soup(parents, tmp_path / "other")
    assert "loss.head.weight" not in weights(tmp_path / "other")


def test_of_equal_scores_the_last_is_the_best() -> None:
    members = itertools.count(1)
    tried = [Candidate(tuple(range(next(members))), 1.0, dev) for dev in (1.0, 2.0, 2.0)]
    assert Soup([], tried).best is tried[2]


def test_a_full_disk_leaves_nothing(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(RunFolder, "save_metrics", full)
        make_soup(read_parents(runs[:2], NOTHING), tmp_path / "soup")
    assert not list(tmp_path.iterdir())
    make_soup(read_parents(runs[:2], NOTHING), tmp_path / "soup")
    assert RunFolder(tmp_path / "soup").finished
