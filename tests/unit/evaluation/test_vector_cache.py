"""Vectors that are kept on disk."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sts_lightning.core.errors import DataError, TrainingError
from sts_lightning.evaluation import vector_cache
from sts_lightning.evaluation.vector_cache import CachedVectors

FIRST, SECOND, THIRD = "one text", "another text", "a third"


class Letters:
    """Encoder by counts of letters, which notes what it is asked to encode."""

    def __init__(self, size: int = 7, factor: float = 1.0) -> None:
        self.size, self.factor = size, factor
        self.asked: list[str] = []

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        self.asked += sentences
        counts = [[ord(letter) % self.size for letter in text] for text in sentences]
        rows = [np.bincount(row, minlength=self.size) for row in counts]
        return self.factor * np.array(rows, dtype=np.float32).reshape(len(sentences), self.size)


def plain(*texts: str) -> np.ndarray:
    return Letters().encode(texts)


def test_a_second_reader_encodes_only_what_is_new(tmp_path: Path) -> None:
    first = CachedVectors(Letters(), tmp_path / "key")
    np.testing.assert_array_equal(first.encode([FIRST, SECOND, FIRST]), plain(FIRST, SECOND, FIRST))
    assert (first.looked_up, first.encoded) == (1, 2)
    encoder = Letters()
    second = CachedVectors(encoder, tmp_path / "key")
    np.testing.assert_array_equal(second.encode([SECOND, THIRD]), plain(SECOND, THIRD))
    assert encoder.asked == [THIRD]
    assert (second.looked_up, second.encoded) == (1, 1)
    assert second.encode([]).shape == (0, 7)
    assert len(list((tmp_path / "key").iterdir())) == 2


def test_a_command_that_is_stopped_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(Letters):
        def encode(self, sentences: Sequence[str], /) -> np.ndarray:
            if THIRD in sentences:
                raise KeyboardInterrupt
            return super().encode(sentences)

    monkeypatch.setattr(vector_cache, "TOGETHER", 2)
    with pytest.raises(KeyboardInterrupt):
        CachedVectors(Stopped(), tmp_path).encode([FIRST, SECOND, THIRD])
    encoder = Letters()
    CachedVectors(encoder, tmp_path).encode([FIRST, SECOND, THIRD])
    assert encoder.asked == [THIRD]


def test_two_at_a_time(tmp_path: Path) -> None:
    both = [CachedVectors(Letters(), tmp_path) for _ in range(2)]
    both[0].encode([FIRST, SECOND])
    both[1].encode([SECOND, THIRD])
    encoder = Letters()
    later = CachedVectors(encoder, tmp_path)
    later.encode([FIRST, SECOND, THIRD])
    assert encoder.asked == []


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    CachedVectors(Letters(), tmp_path).encode([FIRST])
    (added,) = tmp_path.iterdir()
    added.write_bytes(added.read_bytes()[:-3])
    with pytest.raises(DataError, match="delete it") as caught:
        CachedVectors(Letters(), tmp_path)
    assert caught.value.path == added


def test_a_full_disk_loses_no_result(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    cache = CachedVectors(Letters(), tmp_path / "file" / "key")  # no folder can be made there
    with caplog.at_level(logging.WARNING):
        np.testing.assert_array_equal(cache.encode([FIRST]), plain(FIRST))
    assert "are not kept" in caplog.text


def test_undefined_vectors_are_not_kept(tmp_path: Path) -> None:
    with pytest.raises(TrainingError):
        CachedVectors(Letters(factor=float("nan")), tmp_path / "key").encode([FIRST])
    assert not (tmp_path / "key").exists()


class Prompted(Letters):
    """Encoder with a prompt of each role."""

    def encode(self, sentences: Sequence[str], /, prompt: str = "") -> np.ndarray:
        return super().encode([prompt + text for text in sentences])


def test_the_vectors_of_a_role_are_its_own(tmp_path: Path) -> None:
    for _ in range(2):
        cached = CachedVectors(Prompted(), tmp_path)
        for role in ("query", "document"):
            np.testing.assert_array_equal(cached.encode([FIRST], prompt=role), plain(role + FIRST))
        np.testing.assert_array_equal(cached.encode([FIRST]), plain(FIRST))
    assert (cached.looked_up, cached.encoded) == (3, 0)
