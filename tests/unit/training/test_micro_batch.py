from __future__ import annotations

import platform
import sys
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from sts_lightning.core.errors import TrainingError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training import micro_batch_search
from sts_lightning.training.micro_batch_search import find_micro_batch_size


def limit_memory(monkeypatch: pytest.MonkeyPatch, encoder: type[SentenceEncoder], rows: int) -> None:
    """Let more rows than that in a chunk exhaust the memory."""
    embed = encoder.embed_chunk

    def limited(self: SentenceEncoder, chunk: dict[str, Tensor], *rest: Any, **more: Any) -> Tensor:
        if len(chunk["input_ids"]) > rows and torch.is_grad_enabled():
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return embed(self, chunk, *rest, **more)

    monkeypatch.setattr(encoder, "embed_chunk", limited)


def test_auto_finds_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_memory(monkeypatch, SentenceEncoder, rows=13)
    encoder = tiny_bert()
    before = torch.get_rng_state()
    assert find_micro_batch_size(encoder, 16, 2, nullcontext) == 4
    assert find_micro_batch_size(encoder, 6, 2, nullcontext) is None
    assert torch.equal(torch.get_rng_state(), before)
    assert all(parameter.grad is None for parameter in encoder.parameters())
    limit_memory(monkeypatch, SentenceEncoder, rows=1)
    with pytest.raises(TrainingError, match="does not hold one example"):
        find_micro_batch_size(encoder, 16, 2, nullcontext)


def test_auto_with_a_frozen_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_memory(monkeypatch, SentenceEncoder, rows=13)
    encoder = tiny_bert().requires_grad_(False)
    assert find_micro_batch_size(encoder, 16, 2, nullcontext) == 4


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="oneDNN generates kernels on x86"
)
def test_a_search_without_memory_leaves_later_computations_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """After one kernel could not be generated, oneDNN generates none in the same thread."""
    encoder = tiny_bert().requires_grad_(False)
    monkeypatch.setattr(
        micro_batch_search,
        "host_memory_limit",
        partial(micro_batch_search.host_memory_limit, fraction=0.0),
    )
    rows = torch.randn(61, 389)  # a shape that no other test has made a kernel for
    monkeypatch.setattr(SentenceEncoder, "embed_chunk", lambda *_: torch.nn.functional.gelu(rows))
    with pytest.raises(TrainingError, match="does not hold one example"):
        find_micro_batch_size(encoder, 2, 2, nullcontext)
    expected = 0.5 * rows * (1 + torch.erf(rows / 2**0.5))
    torch.testing.assert_close(torch.nn.functional.gelu(rows), expected)
