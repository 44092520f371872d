"""Output whose reader has ended."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from sts_lightning.cli.main import main
from sts_lightning.output import Output, lasting_output
from tests.cli.test_seeds import save


@contextlib.contextmanager
def closed_output() -> Iterator[io.TextIOWrapper]:
    """Standard output as a pipe whose reader has ended."""
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w", encoding="utf-8")
    with contextlib.redirect_stdout(stream):
        yield stream
    stream.close()


def test_a_plain_stream_breaks() -> None:
    """What the class is for."""
    with pytest.raises(BrokenPipeError), closed_output():
        sys.stdout.write("text")
        sys.stdout.flush()


@pytest.mark.parametrize("size", [10, 100_000])
def test_what_is_written_is_dropped(size: int) -> None:
    with closed_output() as stream, lasting_output():
        assert isinstance(sys.stdout, Output)
        for _ in range(3):
            assert sys.stdout.write("x" * size) == size
            sys.stdout.flush()
        Console(file=sys.stdout).print("a table")
        assert sys.stdout.buffer is stream.buffer


def test_a_command_ends_as_if_it_were_read(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        save(tmp_path / seed, 88.0, 80.0 + int(seed))
    with closed_output():
        main(["seeds", str(tmp_path / "1"), str(tmp_path / "2")])


def test_what_is_read_arrives_and_replaced_streams_are_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with lasting_output():
        sys.stdout.write("to pytest\n")
    assert capsys.readouterr().out == "to pytest\n"
    with (tmp_path / "out").open("w", encoding="latin-1", errors="replace") as file:
        monkeypatch.setattr(sys, "stdout", file)
        with lasting_output():
            sys.stdout.write("\xe9 \u2192\n")
        sys.stdout.write("after\n")
        monkeypatch.undo()
    assert (tmp_path / "out").read_bytes() == b"\xe9 ?\nafter\n"
