"""Checkpoints, predictions, stages and links in a run folder from someone else."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from sts_lightning.core.errors import CheckpointError, UntrustedError
from tests.support.run_changes import PLACES, Values
from tests.support.run_entries import ENTRIES, Bomb, edit, train_py


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
