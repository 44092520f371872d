"""What a command says and returns when it ends early."""

from __future__ import annotations

import io
import signal
import sys

import pytest
import torch

from sts_lightning.cli.errors import reporting
from sts_lightning.core.errors import ConfigError, InterruptedRunError, MemoryShortageError
from sts_lightning.core.signals import Stopped


def after(error: BaseException, capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    """Exit status and message, as the shell sees them."""
    with pytest.raises(SystemExit) as left, reporting(traces=False):
        raise error
    code, said = left.value.code, capsys.readouterr().err
    return (1, f"{code}\n") if isinstance(code, str) else (code, said)


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ConfigError("wrong.", hint="Do it so."), 1, "error: wrong. Do it so.\n"),
        (InterruptedRunError("stopped.", signal.SIGTERM), 143, "stopped.\n"),
        (KeyboardInterrupt(), 130, "stopped by Ctrl-C. The same command starts it again.\n"),
        (Stopped(signal.SIGTERM), 143, "stopped by SIGTERM. The same command starts it again.\n"),
        (FileNotFoundError(2, "No such file", "a.csv"), 1, "error: a.csv: No such file.\n"),
        (OSError(28, "No space left"), 1, "error: No space left.\n"),
    ],
)
def test_messages(
    error: BaseException, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert after(error, capsys) == (status, message)


@pytest.mark.parametrize("error", [torch.cuda.OutOfMemoryError("CUDA out of memory"), MemoryError()])
def test_memory_that_does_not_suffice(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = after(error, capsys)
    assert status == 1
    assert "memory ran out" in said


@pytest.mark.parametrize(
    "error", [MemoryError("much"), MemoryShortageError("memory ran out (much).", hint="B")]
)
def test_a_shortage_names_options_of_the_command(error: BaseException) -> None:
    with pytest.raises(SystemExit) as left, reporting(traces=False, on_shortage="A"):
        raise error
    assert str(left.value) == "error: memory ran out (much). A"


@pytest.mark.parametrize(
    "error",
    [RuntimeError("shape"), ConnectionRefusedError(111, "refused"), BrokenPipeError(32, "of a socket")],
)
def test_a_mistake_in_the_code_keeps_its_stack_trace(error: Exception) -> None:
    with pytest.raises(type(error)), reporting(traces=False):
        raise error


def test_a_stop_is_told_in_place_of_the_error_that_it_led_to(capsys: pytest.CaptureFixture[str]) -> None:
    error = RuntimeError("a thread is gone")
    error.__context__ = Stopped(signal.SIGTERM)
    assert after(error, capsys)[0] == 143


def test_stack_traces_on_demand() -> None:
    with pytest.raises(ConfigError), reporting(traces=True):
        raise ConfigError("wrong.")


def test_only_the_first_process_tells_a_stop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    assert after(InterruptedRunError("stopped."), capsys) == (130, "")


def test_what_the_output_cannot_encode_is_written_as_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `sts-lightning score ... > out.csv` on Windows."""
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding="cp1252", newline="\n"))
    with reporting(traces=False):
        sys.stdout.write("数据,é\n")
    assert written.getvalue() == "数据,é\n".encode()
