"""Encoding where memory runs out: a stand-in rejects chunks above a size, as an allocator would."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sts_lightning.cli import main as program
from sts_lightning.core.errors import MemoryShortageError
from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.table import Table
from sts_lightning.evaluation.encoding import score_pairs
from sts_lightning.evaluation.sts import evaluate_sts
from sts_lightning.evaluation.suites import UnitVectors
from sts_lightning.models.compute.budget import is_out_of_memory
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.tiny_decoders import tiny_mistral
from tests.support.sentences import SENTENCES, TEXTS

MANY = [f"{text} {number}" for number in range(8) for text in (*TEXTS, *SENTENCES)]
ON_GPU = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has ...")
ON_CPU = RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: ...")
ON_WINDOWS = RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 16 bytes.")


class Allocator:
    """Lets chunks above a number of tokens fail, and counts them."""

    def __init__(self, patch: pytest.MonkeyPatch, tokens: int, error: BaseException) -> None:
        self.failed = self.fitted = 0
        counting = threading.Lock()
        embed = SentenceEncoder.embed_chunk

        def limited(encoder: SentenceEncoder, chunk: dict[str, Tensor], *rest: Any, **more: Any) -> Tensor:
            fits = chunk["input_ids"].numel() <= tokens
            with counting:
                self.fitted, self.failed = self.fitted + fits, self.failed + (not fits)
            if not fits:
                raise error
            return embed(encoder, chunk, *rest, **more)

        patch.setattr(SentenceEncoder, "embed_chunk", limited)


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "error", [ON_GPU, ON_CPU, ON_WINDOWS, MemoryError()], ids=["gpu", "cpu", "windows", "host"]
)
@pytest.mark.parametrize("limit", [60, 100, 511, 10**6])
@pytest.mark.usefixtures("threads")
def test_vectors_do_not_depend_on_what_fits(
    limit: int, error: BaseException, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = encoder.encode(MANY, chunk_tokens=1000)
    allocator = Allocator(monkeypatch, limit, error)
    np.testing.assert_allclose(encoder.encode(MANY, chunk_tokens=1000), expected, atol=1e-6)
    assert (allocator.failed > 0) == (limit < 1000)


def test_a_size_that_failed_is_not_tried_again(
    encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocator = Allocator(monkeypatch, 100, ON_GPU)
    encoder.encode(MANY * 4, chunk_tokens=1600)
    assert 4 <= allocator.failed <= 15  # 1600, 800, 400, 200 and some between, as chunks differ
    assert allocator.fitted > 5 * allocator.failed


@pytest.mark.parametrize("pooling", ["last_token", "mean"])
def test_a_shared_prefix_and_other_layers(pooling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny_mistral(pooling=pooling, template="This sentence : {sentence} means in one word").eval()
    layers = tiny_bert(pooling="first_last_mean").eval()
    expected = [one.encode(MANY, chunk_tokens=1000) for one in (encoder, layers)]
    allocator = Allocator(monkeypatch, 120, ON_GPU)
    for one, vectors in zip((encoder, layers), expected, strict=True):
        np.testing.assert_allclose(one.encode(MANY, chunk_tokens=1000), vectors, atol=1e-5)
    assert allocator.failed


def test_evaluation_and_scores(encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = MANY[:40], MANY[40:80]
    table = Table({"sentence1": first, "sentence2": second, "label": [float(n % 5) for n in range(40)]})

    def all_of_it() -> list[Any]:
        return [
            evaluate_sts(encoder, [STSTask("a", {"test": table})])["average"],
            score_pairs(UnitVectors(encoder), first, second),
        ]

    expected = all_of_it()
    allocator = Allocator(monkeypatch, 60, ON_CPU)
    found = all_of_it()
    assert allocator.failed
    np.testing.assert_allclose(found[0], expected[0], atol=1e-3)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-6)


def test_dev_evaluation_in_training(encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = encoder.prepare(1000, training=False)([MANY], [])
    with torch.no_grad():
        expected = encoder(rows)
        allocator = Allocator(monkeypatch, 60, ON_GPU)
        torch.testing.assert_close(encoder(rows), expected, atol=1e-6, rtol=0)
    assert allocator.failed
    with pytest.raises(torch.OutOfMemoryError):  # in training, micro batches are the remedy
        encoder.train()(rows)


def test_one_sentence_too_many(encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    Allocator(monkeypatch, 20, ON_GPU)
    with pytest.raises(MemoryShortageError, match="one sentence of 26 tokens") as caught:
        encoder.encode(["a" * 24, "b"])
    assert "max_length" in str(caught.value)


def test_other_errors_pass(encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    allocator = Allocator(monkeypatch, 20, RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="shapes"):
        encoder.encode(MANY)
    assert allocator.failed >= 1


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("x"), True),
        (MemoryError(), True),
        (ON_CPU, True),
        (ON_WINDOWS, True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("could not create a primitive"), True),
        (RuntimeError("std::bad_alloc"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (RuntimeError("shape mismatch"), False),
        (ValueError("can't allocate memory"), False),
    ],
)
def test_what_counts_as_out_of_memory(error: BaseException, expected: bool) -> None:
    assert is_out_of_memory(error) is expected


def test_a_command_says_it_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: BaseException) -> str:
        def find(root: object) -> None:
            raise error

        monkeypatch.setattr("sts_lightning.cli.runs.find_runs", find)
        with pytest.raises(SystemExit) as left:
            program.main(["runs", "list", "."])
        return str(left.value)

    assert fail(ON_GPU) == "error: memory ran out (CUDA out of memory)."  # its options would not help
    assert "MemoryError" in fail(MemoryError())
    with pytest.raises(RuntimeError, match="other"):
        fail(RuntimeError("other"))
