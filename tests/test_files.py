"""Output paths and atomic writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sts_lightning.errors import ConfigError
from sts_lightning.files import check_output, write_atomic


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.json"
    write_atomic(path, "old")

    def full_disk(self: Path, *args: object, **kwargs: object) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, "new")
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["metrics.json"]


def test_an_output_is_a_new_regular_file_of_its_own(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("x")
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    for path, others, suffix in (
        (tmp_path, [], None),
        (fifo, [], None),
        (tmp_path / "no" / "x", [], None),
        (own, [own], None),
        (tmp_path / "x.pdf", [], ".png"),
    ):
        with pytest.raises(ConfigError) as caught:
            check_output("--to", path, *others, suffix=suffix)
        assert caught.value.key == "to"
    check_output("--to", own, tmp_path / "other.csv", None, suffix=".csv")
    check_output("--to", None)
