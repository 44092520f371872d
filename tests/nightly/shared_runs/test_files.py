"""Checkpoints, predictions and links in a run folder from someone else."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from sts_lightning.core.errors import UntrustedError
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


def test_the_first_run_of_a_resumed_one_writes_nothing_behind_links(run: Path, tmp_path: Path) -> None:
    victim = Path(shutil.copytree(run, tmp_path / "victim"))
    (victim / "metrics.json").unlink()
    (victim / "checkpoints" / "thesis.bin").write_text("mine\n")
    one, two = tmp_path / "shared" / "one", Path(shutil.copytree(run, tmp_path / "shared" / "two"))
    (two / "metrics.json").unlink()
    edit(two / "config.yaml", lambda settings: settings.update(init_from="elsewhere/one"))
    one.mkdir()
    shutil.copy(run / "config.yaml", one)
    (one / "checkpoints").symlink_to(victim / "checkpoints")
    before = sorted(path.stat().st_mtime_ns for path in victim.rglob("*"))
    with pytest.raises(UntrustedError, match="one/checkpoints links to"):
        train_py(tmp_path / "out", f"resume={two}")
    assert sorted(path.stat().st_mtime_ns for path in victim.rglob("*")) == before
