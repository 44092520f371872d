from __future__ import annotations

import resource
from contextlib import nullcontext
from functools import partial

import pytest

from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training import micro_batch_search as micro_batch
from sts_lightning.training.micro_batch_search import find_micro_batch_size


def test_auto_on_a_cpu_stays_within_the_available_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux kills a process instead of denying it memory; so many long rows take gigabytes."""
    monkeypatch.setattr(
        micro_batch, "host_memory_limit", partial(micro_batch.host_memory_limit, fraction=0.05)
    )
    encoder = tiny_bert(max_length=500, hidden_size=64, layers=1)
    found = find_micro_batch_size(encoder, 2048, 2, nullcontext)
    assert found is not None
    assert 1 <= found < 2048
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
