from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from sts_lightning.core.errors import TrainingError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training import micro_batch_search
from sts_lightning.training.micro_batch_search import find_micro_batch


def limit_memory(monkeypatch: pytest.MonkeyPatch, encoder: type[SentenceEncoder], rows: float) -> None:
    """Let chunks with more padded tokens than so many of the longest rows exhaust the memory."""
    embed = encoder.embed_chunk

    def limited(self: SentenceEncoder, chunk: dict[str, Tensor], *rest: Any, **more: Any) -> Tensor:
        most = rows * (self.tokenizer.lengths.train + self.tokenizer.lengths.added)
        if chunk["input_ids"].numel() > most and torch.is_grad_enabled():
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return embed(self, chunk, *rest, **more)

    monkeypatch.setattr(encoder, "embed_chunk", limited)


def test_auto_finds_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_memory(monkeypatch, SentenceEncoder, rows=13)
    encoder = tiny_bert()
    before = torch.get_rng_state()
    assert find_micro_batch(encoder, 16, 2, nullcontext) == 6 * 2 * 128  # between 4, which fit, and 8
    assert find_micro_batch(encoder, 6, 2, nullcontext) is None
    assert torch.equal(torch.get_rng_state(), before)
    assert all(parameter.grad is None for parameter in encoder.parameters())
    limit_memory(monkeypatch, SentenceEncoder, rows=1)
    with pytest.raises(TrainingError, match="does not hold one example"):
        find_micro_batch(encoder, 16, 2, nullcontext)


def test_auto_with_a_frozen_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_memory(monkeypatch, SentenceEncoder, rows=13)
    encoder = tiny_bert().requires_grad_(False)
    assert find_micro_batch(encoder, 16, 2, nullcontext) == 6 * 2 * 128


def test_trials_share_one_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """An allocator keeps what a trial frees; each trial's limit used to add half of what was left to that."""
    limits, kept = [], []

    @contextmanager
    def recorded(limit: int) -> Iterator[None]:
        kept.append(torch.ones(1 << 24))  # 64 MiB
        limits.append(limit)
        yield

    limit_memory(monkeypatch, SentenceEncoder, rows=0.5)
    monkeypatch.setattr(micro_batch_search, "host_memory_limit", recorded)
    with pytest.raises(TrainingError):
        find_micro_batch(tiny_bert(), 4, 1, nullcontext)
    assert len(limits) == 3
    assert len(set(limits)) == 1


def test_the_search_ends_within_a_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny_bert(max_length=10)
    for rows in (1, 2, 23, 57, 97, 191, 255):
        limit_memory(monkeypatch, SentenceEncoder, rows)
        found = find_micro_batch(encoder, 256, 1, nullcontext)
        assert found is not None
        assert rows / 1.1 - 1 <= found // 10 <= rows
        monkeypatch.undo()
