"""Errors for users: message, key, hint and exit status."""

from __future__ import annotations

import signal

import pytest

from sts_lightning.core.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    InterruptedRunError,
    RunningElsewhereError,
    UntrustedError,
    UserError,
)


def test_a_hint_follows_the_message_and_is_kept_apart() -> None:
    error = ConfigError("optim.lr is wrong.", key="optim.lr", hint="Choose another.")
    assert str(error) == "optim.lr is wrong. Choose another."
    assert (error.key, error.hint) == ("optim.lr", "Choose another.")
    bare = UserError("it failed.")
    assert (str(bare), bare.key, bare.hint) == ("it failed.", None, None)


@pytest.mark.parametrize(
    ("where", "text"),
    [({}, "bad"), ({"path": "a.csv"}, "a.csv: bad"), ({"path": "a.csv", "line": 3}, "a.csv, line 3: bad")],
)
def test_an_error_of_a_file_names_its_place(where: dict[str, object], text: str) -> None:
    assert str(DataError("bad", **where)) == text  # type: ignore[arg-type]


def test_exit_statuses() -> None:
    """Those of the README, and for signals those of a shell."""
    assert [kind.exit_status for kind in (UserError, UntrustedError)] == [1, 1]
    assert RunningElsewhereError.exit_status == 75
    assert [InterruptedRunError("", n).exit_status for n in (signal.SIGINT, signal.SIGTERM)] == [130, 143]
    assert issubclass(UntrustedError, CheckpointError)
