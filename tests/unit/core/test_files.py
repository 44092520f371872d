"""Output paths and atomic writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sts_lightning.core.errors import ConfigError, StorageError
from sts_lightning.core.files import check_output, last_name, new_folder, write_atomic


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.json"
    write_atomic(path, "old")

    def full_disk(self: Path, *args: object, **kwargs: object) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomic(path, "new")
    assert caught.value.filename == str(path)
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


def test_no_file_takes_the_place_of_a_pipe_or_a_device(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    with pytest.raises(StorageError, match="pipe is not a regular file"):
        write_atomic(fifo, "x")
    assert fifo.is_fifo()
    assert [item.name for item in tmp_path.iterdir()] == ["pipe"]


def test_the_error_names_the_file_and_not_the_temporary_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write_atomic(tmp_path / "no" / "a.csv", "x")
    assert caught.value.filename == str(tmp_path / "no" / "a.csv")


def test_a_link_to_itself_is_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    check_output("--to", tmp_path / "a.csv", tmp_path / "loop")


def test_a_new_folder_is_whole_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "one") as inside:
        (inside / "a").touch()
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
    with new_folder(tmp_path / "one") as inside:
        (inside / "a").touch()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["one", "one/a"]


def test_a_folder_made_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="one"), new_folder(tmp_path / "one") as inside:
        (inside / "a").touch()
        (tmp_path / "one").mkdir()
        (tmp_path / "one" / "b").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["one", "b"]


def test_a_new_folders_files_can_be_read_by_others(tmp_path: Path) -> None:
    with new_folder(tmp_path / "out") as inside:
        (inside / "weights").touch(mode=0o600)
        (inside / "usual").touch()
    assert (tmp_path / "out" / "weights").stat().st_mode == (tmp_path / "out" / "usual").stat().st_mode


def test_the_last_name_of_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run" / "inside").mkdir(parents=True)
    (tmp_path / "link").symlink_to("run")
    monkeypatch.chdir(tmp_path / "run" / "inside")
    found = [last_name(path) for path in (".", "..", "a/b/", tmp_path / "link")]
    assert found == ["inside", "run", "b", "link"]
