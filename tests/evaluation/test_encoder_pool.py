"""Sentences encoded by a pool of processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from sts_lightning.errors import ConfigError, UserError
from sts_lightning.evaluation import encoder_pool
from sts_lightning.evaluation.encoder_pool import EncoderPool
from tests.conftest import ROOT

pytestmark = pytest.mark.slow


class Noting:
    """Vectors that tell length, process and number of threads."""

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        if "reject" in sentences:
            raise UserError("this sentence is too long")
        if "fail" in sentences:
            raise ZeroDivisionError("a defect")
        if "sleep" in sentences:
            time.sleep(100)
        if "die" in sentences:
            os.kill(os.getpid(), signal.SIGKILL)
        rows = [[len(text), os.getpid(), torch.get_num_threads()] for text in sentences]
        return np.array(rows, dtype=np.float64).reshape(-1, 3).astype(np.float32)


def load(device: str, reject: str = "") -> Noting:
    if device == reject:
        raise ConfigError(f"no room on {device}", key="model")
    return Noting()


def children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]


def test_all_processes_encode() -> None:
    sentences = ["a" * length for length in (3, 1, 4, 1, 5, 9, 2)]
    before = torch.get_num_threads()
    with EncoderPool(Noting(), load, ["one", "two"], threads=1) as pool:
        vectors = pool.encode(sentences)
        assert vectors[:, 0].tolist() == [len(text) for text in sentences]
        pids, counts = np.unique(vectors[:, 1], return_counts=True)
        assert len(pids) == 3
        assert sorted(counts) == [2, 2, 3]
        assert vectors[:, 2].tolist() == [1] * len(sentences)
        assert pool.encode(["abc"])[:, 0].tolist() == [3]
        assert pool.encode([]).shape == (0, 3)
        assert len(children()) == 2
    assert not children()
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("word", "kind", "message"),
    [
        ("reject", UserError, "the process on two: this sentence is too long"),
        ("fail", RuntimeError, "ZeroDivisionError: a defect"),
        ("die", UserError, r"the process on two has stopped \(exit code -9\): killed"),
    ],
)
def test_a_process_that_cannot_go_on(word: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message), EncoderPool(Noting(), load, ["one", "two"]) as pool:
        pool.encode(["a", "b", word])  # the longest sentence is of the last process
    assert not children()


class Waiting(Noting):
    """Encodes once the other process has ended."""

    calls = 0

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        self.calls += 1
        deadline = time.monotonic() + 60
        while multiprocessing.active_children():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return super().encode(sentences)


@pytest.mark.parametrize(
    ("word", "message"), [("die", "the process on one has stopped"), ("reject", "this sentence is too long")]
)
def test_the_end_of_a_process_is_noticed_while_this_one_encodes(
    word: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder_pool, "PIECE", 2)
    first = Waiting()
    with pytest.raises(UserError, match=message), EncoderPool(first, load, ["one"]) as pool:
        pool.encode(["a"] * 19 + [word])  # the longest sentence is of the other process
    assert first.calls == 1


def test_pieces_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_pool, "PIECE", 2)
    sentences = ["a" * length for length in (3, 1, 4, 1, 5, 9, 2, 6, 5)]
    with EncoderPool(Noting(), load, ["one"]) as pool:
        assert pool.encode(sentences)[:, 0].tolist() == [len(text) for text in sentences]


def test_a_process_that_cannot_load() -> None:
    pool = EncoderPool(Noting(), partial(load, reject="two"), ["one", "two"])
    with pytest.raises(UserError, match="the process on two: no room on two"), pool:
        pytest.fail("entered")
    assert not children()


def test_an_error_of_the_first_process_stops_the_others() -> None:
    with pytest.raises(KeyboardInterrupt), EncoderPool(Noting(), load, ["one"]):
        raise KeyboardInterrupt
    assert not children()


KILLED = """
import os, signal, threading
from sts_lightning.evaluation.encoder_pool import EncoderPool
from tests.evaluation.test_encoder_pool import Noting, children, load
if __name__ == "__main__":
    with EncoderPool(Noting(), load, ["one"]) as pool:
        print(children()[0].pid, flush=True)
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGKILL)).start()
        pool.encode(["a", "sleep"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent was killed")
def test_a_process_ends_with_the_first_one_in_the_middle_of_its_sentences(tmp_path: Path) -> None:
    (tmp_path / "killed.py").write_text(KILLED)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "killed.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid = int(done.stdout)
    deadline = time.monotonic() + 20
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(pid)
