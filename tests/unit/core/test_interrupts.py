"""Signals as exceptions."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from types import SimpleNamespace

import pytest

from sts_lightning.core.errors import InterruptedRunError, UserError
from sts_lightning.core.signals import (
    PARENT,
    Stopped,
    StopRequest,
    listen_again,
    listening,
    signal_name,
    stop_with_parent,
    stopping_signal,
    unmasked,
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2])
def test_the_first_signal_is_raised_and_later_ones_do_not_cut_the_clean_up(number: signal.Signals) -> None:
    with listening():
        with pytest.raises(Stopped) as caught:
            signal.raise_signal(number)
        signal.raise_signal(number)
    assert caught.value.number == number
    assert signal.getsignal(number) is signal.SIG_DFL


def test_it_listens_again_after_a_stop_that_was_caught() -> None:
    for _ in range(2):
        with listening(), pytest.raises(Stopped):
            signal.raise_signal(signal.SIGTERM)


def test_handlers_of_others_are_left_alone_unless_taken_back() -> None:
    received: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        with listening():
            signal.raise_signal(signal.SIGTERM)
        assert received == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with listening():
        signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
        listen_again()
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGTERM)
    assert len(received) == 1


def test_nothing_is_taken_back_outside() -> None:
    listen_again()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_thread_and_a_forked_worker_do_not_listen() -> None:
    def enter() -> None:
        with listening():
            found.append(signal.getsignal(signal.SIGTERM))

    found: list[object] = []
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [signal.SIG_DFL]
    with listening():
        child = os.fork()
        if child == 0:
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                os._exit(1)  # only reached if the signal was raised as an exception or ignored
        _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGTERM


def test_the_signal_is_found_below_what_a_library_made_of_it() -> None:
    for raised, number in (
        (Stopped(signal.SIGTERM), signal.SIGTERM),
        (KeyboardInterrupt(), signal.SIGINT),
        (SystemExit(1), None),
    ):
        try:
            try:
                raise raised
            except BaseException:
                raise SystemExit(1)  # noqa: B904
        except SystemExit as error:
            assert stopping_signal(error) == number
    assert signal_name(signal.SIGINT) == "Ctrl-C"
    assert InterruptedRunError("", signal.SIGTERM).exit_status == 143
    assert InterruptedRunError("").exit_status == 130


def test_a_stop_request_is_recorded_and_the_second_one_raised() -> None:
    announced: list[signal.Signals] = []
    request = StopRequest(announced.append)
    before = signal.getsignal(signal.SIGTERM)
    request.listen()
    try:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert request.number == signal.SIGTERM
        assert announced == [signal.SIGTERM]
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGTERM)
    finally:
        request.restore()
    assert signal.getsignal(signal.SIGTERM) is before


def test_nohup_is_respected() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    request = StopRequest(lambda _: pytest.fail("a signal that is ignored"))
    try:
        with listening():
            request.listen()
            signal.raise_signal(signal.SIGHUP)
            request.restore()
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_closed_terminal_ends_a_step_in_training() -> None:
    announced: list[signal.Signals] = []
    request = StopRequest(announced.append)
    with listening():
        request.listen()
        try:
            signal.raise_signal(signal.SIGHUP)
        finally:
            request.restore()
    assert request.number == signal.SIGHUP
    assert announced == [signal.SIGHUP]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_a_job_without_the_process_that_started_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_with_parent()  # not a job of a sweep
    monkeypatch.setenv(PARENT, str(os.getpid()))  # not the process that started this one
    monkeypatch.setenv("LOCAL_RANK", "1")
    stop_with_parent()  # the first process of the run ends this one
    monkeypatch.delenv("LOCAL_RANK")
    if sys.platform == "linux":
        asked: list[int] = []
        monkeypatch.setattr(
            ctypes, "CDLL", lambda _: SimpleNamespace(prctl=lambda *arguments: asked.extend(arguments))
        )
        with pytest.raises(Stopped):
            stop_with_parent()
        monkeypatch.setenv(PARENT, str(os.getppid()))
        stop_with_parent()
        assert asked == [1, signal.SIGTERM] * 2


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), Stopped(signal.SIGTERM)])
def test_an_error_of_a_clean_up_does_not_mask_a_stop(raised: KeyboardInterrupt) -> None:
    with pytest.raises(Stopped) as caught, unmasked():
        try:
            try:
                raise raised
            finally:
                raise AttributeError("half built")
        except AttributeError as error:
            raise TypeError("as OmegaConf formats it") from error
    assert caught.value.number == stopping_signal(raised)
    assert isinstance(caught.value.__cause__, TypeError)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), UserError("broken"), ValueError()])
def test_errors_that_the_user_has_to_know_stay(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, unmasked():
        if isinstance(error, ValueError):
            raise error  # not the consequence of a stop
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise error from None
    assert caught.value is error
