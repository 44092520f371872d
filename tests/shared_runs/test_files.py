"""Checkpoints, predictions, stages and links in a run folder from someone else."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from sts_lightning.cli.main import main
from sts_lightning.core.errors import CheckpointError, UntrustedError
from sts_lightning.evaluation.statistics import compare
from sts_lightning.reproduce.collect import collect
from sts_lightning.reproduce.plan import Cell, Table
from sts_lightning.reproduce.spec import Requirements, RowSpec, TableSpec
from sts_lightning.sweep.job import result
from tests.shared_runs.changes import PLACES, Values
from tests.shared_runs.entries import ENTRIES, Bomb, edit, train_py


@pytest.mark.parametrize("which", ["best", "last"])
def test_pickled_code_in_a_checkpoint(which: str, run: Path, marker: Path, tmp_path: Path) -> None:
    path = run / "checkpoints" / f"{which}.ckpt"
    torch.save(torch.load(path, weights_only=True) | {"epoch": Bomb(marker)}, path)
    entry = "resume" if which == "last" else "load"
    with pytest.raises(CheckpointError, match=rf"{which}\.ckpt is not a readable checkpoint"):
        ENTRIES[entry](run, tmp_path / "out")
    assert not marker.exists()


def test_lightning_is_told_to_read_weights_only(
    run: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the checkpoint changes after it has been checked."""
    path = run / "checkpoints" / "last.ckpt"
    good = path.read_bytes()
    torch.save(torch.load(path, weights_only=True) | {"epoch": Bomb(marker)}, path)
    bad = path.read_bytes()
    from lightning.pytorch import Trainer

    fit = Trainer.fit

    def swap(trainer: Trainer, *arguments: Any, **settings: Any) -> None:
        assert settings["weights_only"] is True
        path.write_bytes(bad)
        fit(trainer, *arguments, **settings)

    path.write_bytes(good)
    monkeypatch.setattr(Trainer, "fit", swap)
    with pytest.raises(pickle.UnpicklingError):
        ENTRIES["resume"](run, tmp_path / "out")
    assert not marker.exists()


STAGES: dict[str, Callable[[str], Callable[[Values], object]]] = {
    "a class in a later stage": lambda payload: (
        lambda stages: PLACES["loss"](stages["two"], {"_target_": payload})
    ),
    "a name that leads out": lambda payload: lambda stages: stages.update({"../two": stages.pop("two")}),
    "an absolute name": lambda payload: lambda stages: stages.update({"/two": stages.pop("two")}),
    "no configuration": lambda payload: lambda stages: stages.update(two="x"),
    "no stage": lambda payload: lambda stages: stages.clear(),
    "an interpolation": lambda payload: lambda stages: stages["two"].update(name="${oc.env:HOME}"),
}


@pytest.mark.parametrize("trick", list(STAGES))
def test_stages(trick: str, run: Path, payload: str, marker: Path, tmp_path: Path) -> None:
    stage = yaml.safe_load((run / "config.yaml").read_text())
    both = tmp_path / "both"
    both.mkdir()
    (both / "stages.yaml").write_text(yaml.safe_dump({"one": stage, "two": stage}))
    edit(both / "stages.yaml", lambda stages: STAGES[trick](payload)(stages) and None)
    with pytest.raises(CheckpointError, match=r"stages\.yaml"):
        train_py(tmp_path / "out", f"resume={both}")
    assert not marker.exists()
    assert [path.name for path in both.iterdir()] == ["stages.yaml"]


def test_a_sweep_reads_no_result_outside_its_folder(run: Path, tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "stages.yaml").write_text("one: {}\n../run: {}\n")
    with pytest.raises(CheckpointError, match=r"stages\.yaml: '\.\./run' is not the name of a stage"):
        result(tmp_path / "job")


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


@pytest.mark.parametrize("link", ["one", "one/checkpoints"])
def test_resumed_stages_write_nothing_behind_links(link: str, run: Path, tmp_path: Path) -> None:
    victim = Path(shutil.copytree(run, tmp_path / "victim"))
    (victim / "metrics.json").unlink()
    (victim / "checkpoints" / "thesis.bin").write_text("mine\n")
    stage = yaml.safe_load((run / "config.yaml").read_text())
    stages = tmp_path / "stages"
    (stages / link).parent.mkdir(parents=True)
    (stages / "stages.yaml").write_text(yaml.safe_dump({"one": stage}))
    (stages / link).symlink_to(victim if link == "one" else victim / "checkpoints")
    before = sorted(path.stat().st_mtime_ns for path in victim.rglob("*"))
    with pytest.raises(UntrustedError, match=f"{link} links to"):
        train_py(tmp_path / "out", f"resume={stages}")
    assert sorted(path.stat().st_mtime_ns for path in victim.rglob("*")) == before


def pickled_predictions(run: Path, marker: Path) -> None:
    bomb = np.array([Bomb(marker)], dtype=object)
    np.savez(run / "predictions.npz", **{"STSB/cosine": bomb, "STSB/gold": bomb})


def test_compare_unpickles_nothing(run: Path, marker: Path) -> None:
    pickled_predictions(run, marker)
    with pytest.raises(CheckpointError, match=r"predictions\.npz is broken"):
        compare([run], [run])
    assert not marker.exists()


def test_reproduce_collects_numbers_only(run: Path, payload: str, marker: Path, tmp_path: Path) -> None:
    spec = TableSpec(
        title="Toy",
        needs=Requirements(hours=1),
        seeds=[1],
        columns=["dev"],
        rows={"one": RowSpec(["loss=cosent"])},
    )
    table = Table(spec, tmp_path / "table")
    (planned,) = table.seed_runs(Cell("one"))
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
