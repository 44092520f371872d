"""Checkpoints, predictions and links in a run folder from someone else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from sts_lightning.cli.main import main
from sts_lightning.core.errors import CheckpointError, UntrustedError
from sts_lightning.evaluation.statistics import compare
from sts_lightning.reproduce.results import collect
from sts_lightning.reproduce.table import Row, Table, TableSpec
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import check_links
from sts_lightning.runs.state import begin_again
from sts_lightning.sweep.job import Job
from tests.support.run_changes import PLACES
from tests.support.run_entries import ENTRIES, Bomb, edit


@pytest.mark.parametrize("which", ["best", "last"])
def test_pickled_code_in_a_checkpoint(which: str, run: Path, marker: Path, tmp_path: Path) -> None:
    path = run / "checkpoints" / f"{which}.ckpt"
    torch.save(torch.load(path, weights_only=True) | {"epoch": Bomb(marker)}, path)
    entry = "resume" if which == "last" else "load"
    if entry == "load":  # as of version 0.3
        shutil.rmtree(run / "model")
    with pytest.raises(CheckpointError, match=rf"{which}\.ckpt is not a readable checkpoint"):
        ENTRIES[entry](run, tmp_path / "out")
    assert not marker.exists()


def test_a_sweep_reads_no_result_outside_its_folder(run: Path, tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "stages.yaml").write_text("one: {}\n../run: {}\n")
    assert not Job(0, (), tmp_path / "job").read_result()


def test_a_resumed_run_does_not_write_through_links(run: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    (run / "train.log").unlink()
    (run / "train.log").symlink_to(victim)
    with pytest.raises(UntrustedError, match=r"train\.log links to"):
        ENTRIES["resume"](run, tmp_path / "out")
    assert victim.read_text() == "mine\n"


@pytest.mark.parametrize("name", ["plots", "checkpoints"])
def test_a_resumed_run_removes_nothing_behind_links(name: str, run: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / ".notes.2024").write_text("mine\n")
    shutil.rmtree(run / name, ignore_errors=True)
    (run / name).symlink_to(victim)
    with pytest.raises(UntrustedError, match=f"{name} links to"):
        ENTRIES["resume"](run, tmp_path / "out")
    assert [path.name for path in victim.iterdir()] == [".notes.2024"]


@pytest.mark.parametrize("wrong", [None, "another file", "a link", "another run", "no folder", "owner"])
def test_checkpoints_may_lie_elsewhere(
    wrong: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, scratch = tmp_path / "run", tmp_path / "scratch" / "checkpoints"
    run.mkdir()
    scratch.mkdir(parents=True)
    for name in (
        "last.ckpt",
        "step_5.ckpt",
        ".best.ckpt.123",
        "step_7/model.safetensors",
        ".final.ab/final/x",
    ):
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        (scratch / name).touch()
    (run / "checkpoints").symlink_to(scratch)
    if wrong is None:
        check_links(run)
        begin_again(RunFolder(run))
        assert list(scratch.iterdir()) == []
        assert (run / "checkpoints").is_symlink()
        return
    if wrong == "another file":
        (scratch / "mine.ckpt").touch()
    elif wrong == "a link":
        (scratch / "step_7" / "config.json").symlink_to(tmp_path / "mine")
    elif wrong == "another run":
        (scratch.parent / "config.yaml").touch()
    elif wrong == "no folder":
        shutil.rmtree(scratch)
    else:
        monkeypatch.setattr("os.getuid", lambda: 4_321, raising=False)
    with pytest.raises(UntrustedError, match=r"checkpoints links to .*Checkpoints may lie elsewhere"):
        check_links(run)


def pickled_predictions(run: Path, marker: Path) -> None:
    bomb = np.array([Bomb(marker)], dtype=object)
    np.savez(run / "predictions.npz", **{"STSB/cosine": bomb, "STSB/gold": bomb})


def test_compare_unpickles_nothing(run: Path, marker: Path) -> None:
    pickled_predictions(run, marker)
    with pytest.raises(CheckpointError, match=r"predictions\.npz is broken"):
        compare([run], [run])
    assert not marker.exists()


def test_reproduce_collects_numbers_only(run: Path, payload: str, marker: Path, tmp_path: Path) -> None:
    spec = TableSpec("Toy", {"one": Row(["loss=cosent"])}, seeds=[1], columns=["dev"])
    table = Table("toy", spec, tmp_path / "table")
    (planned,) = table.jobs()[0].values()
    shutil.copytree(run, planned.folder)
    pickled_predictions(planned.folder, marker)
    edit(planned.folder / "config.yaml", lambda cfg: PLACES["loss"](cfg, {"_target_": payload}))
    metrics = json.loads((planned.folder / "metrics.json").read_text())
    metrics["test"] = {"tasks": {"STSB": {"spearman": 1.0}}, "average": 1.0}
    (planned.folder / "metrics.json").write_text(json.dumps(metrics))
    collected = collect(table, 10)
    assert [problem for problem in collected.problems if "predictions.npz" in problem]
    metrics["dev"] = {"_target_": payload}
    (planned.folder / "metrics.json").write_text(json.dumps(metrics))
    assert [problem for problem in collect(table, 10).problems if "metrics.json is broken" in problem]
    with pytest.raises(SystemExit, match=r"metrics\.json is broken"):
        main(["runs", "mean", str(planned.folder), str(run)])
    assert not marker.exists()
