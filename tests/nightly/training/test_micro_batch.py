from __future__ import annotations

import platform
import resource
import subprocess
import sys
from contextlib import nullcontext
from functools import partial

import pytest

from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training import micro_batch_search as micro_batch
from sts_lightning.training.micro_batch_search import find_micro_batch


def test_auto_on_a_cpu_stays_within_the_available_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux kills a process instead of denying it memory; so many long rows take gigabytes."""
    monkeypatch.setattr(micro_batch, "most_host_memory", partial(micro_batch.most_host_memory, fraction=0.05))
    encoder = tiny_bert(max_length=500, hidden_size=64, layers=1)
    found = find_micro_batch(encoder, 2048, 2, nullcontext)
    assert found is not None
    assert 2 * 500 <= found < 2048 * 2 * 500
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


NO_MEMORY = """
from contextlib import nullcontext
from functools import partial

import torch

from sts_lightning.core.errors import TrainingError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training import micro_batch_search

encoder = tiny_bert().requires_grad_(False)
rows = torch.randn(61, 389)
SentenceEncoder.embed_chunk = lambda *_: torch.nn.functional.gelu(rows)
limit = micro_batch_search.most_host_memory
micro_batch_search.most_host_memory = partial(limit, fraction=0.0)
try:
    micro_batch_search.find_micro_batch(encoder, 2, 2, nullcontext)
except TrainingError as error:
    print(error)
expected = 0.5 * rows * (1 + torch.erf(rows / 2**0.5))
torch.testing.assert_close(torch.nn.functional.gelu(rows), expected)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="oneDNN generates kernels on x86"
)
def test_a_search_without_memory_leaves_later_computations_alone() -> None:
    """After one kernel could not be generated, oneDNN generates none in the same thread.

    A process that has run for long has free memory within any limit.
    """
    done = subprocess.run([sys.executable, "-c", NO_MEMORY], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("memory does not hold one example")
