from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
import torch

from sts_lightning.training.callbacks.checkpoints import AtomicCheckpointIO


def test_a_checkpoint_that_does_not_fit_leaves_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint({"step": 1}, path)

    def half(content: Any, file: Any) -> None:
        file.write(b"PK")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(OSError, match="No space left on device") as caught:
        AtomicCheckpointIO().save_checkpoint({"step": 2}, path)
    assert caught.value.filename == str(path)
    assert torch.load(path, weights_only=True) == {"step": 1}
    assert list(tmp_path.iterdir()) == [path]
