"""One checkpoint on a disk with and without room."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from sts_lightning.runs import folder
from sts_lightning.runs.folder import RunFolder, write_checkpoint

CONTENT = {"state_dict": {"weight": torch.arange(200_000.0)}, "global_step": 3}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    write_checkpoint(run.checkpoint("best"), CONTENT)
    found = run.read_checkpoint("best")
    assert torch.equal(found["state_dict"]["weight"], CONTENT["state_dict"]["weight"])  # type: ignore[index]
    assert found["global_step"] == 3
    assert [path.name for path in run.checkpoints.iterdir()] == ["best.ckpt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_an_error_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def on_full_disk(path: Path) -> Iterator[Path]:
        yield Path("/dev/full")

    monkeypatch.setattr(folder, "replacing", on_full_disk)
    with pytest.raises(OSError, match="No space left") as raised:
        write_checkpoint(RunFolder(tmp_path).checkpoint("best"), CONTENT)
    assert raised.value.errno == errno.ENOSPC
