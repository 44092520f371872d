"""Embedding without gradient, in threads and slices."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from sts_lightning.models import encoder as module
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.text.chunks import TokenizedBatch
from sts_lightning.models.text.tokenize import SentenceTokenizer
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.tiny_decoders import tiny_mistral
from tests.support.emulated_gpu import emulated_gpu
from tests.support.families import tiny, write
from tests.support.sentences import LOWER_CASE, SENTENCES


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Threads that torch may use, whatever the tests were started with."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_encode_equals_one_by_one(encoder: SentenceEncoder, threads: int) -> None:
    together = encoder.encode(SENTENCES, chunk_tokens=30)
    assert together.dtype == np.float32
    singly = np.concatenate([encoder.encode([sentence]) for sentence in SENTENCES])
    np.testing.assert_allclose(together, singly, atol=1e-6)
    np.testing.assert_array_equal(together[2], together[5])


def test_a_loaded_encoder_is_in_evaluation_mode_and_stays_there(tmp_path: Path) -> None:
    """Its vectors are those of transformers, before and after `encode`."""
    folder = write(tiny("bert"), tmp_path)
    encoder = SentenceEncoder.from_pretrained(folder, pooling="cls")
    rows = encoder.tokenizer.rows(SENTENCES[:1], 512)
    before = encoder(rows).detach()
    encoder.encode(SENTENCES)
    reference = AutoModel.from_pretrained(folder)
    with torch.no_grad():
        expected = reference(**AutoTokenizer.from_pretrained(folder)(SENTENCES[:1], return_tensors="pt"))
    for vectors in (before, encoder(rows).detach()):
        torch.testing.assert_close(vectors, expected.last_hidden_state[:, 0])


@pytest.mark.parametrize("fails", [False, True])
def test_encode_gives_each_part_its_own_mode_back(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny_bert(dropout=0.5).train()
    encoder.backbone.embeddings.eval()  # by hand, so that it has no dropout
    modes = {name: part.training for name, part in encoder.named_modules()}
    if fails:
        monkeypatch.setattr(encoder.backbone.encoder, "forward", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError) if fails else contextlib.nullcontext():
        encoder.encode(SENTENCES)
    assert {name: part.training for name, part in encoder.named_modules()} == modes
    assert not encoder.backbone.embeddings.dropout.training and encoder.backbone.encoder.training


def test_encode_leaves_mode_threads_and_randomness_alone(threads: int) -> None:
    encoder = tiny_bert(dropout=0.5).train()
    state = torch.get_rng_state()
    first, second = encoder.encode(SENTENCES, chunk_tokens=20), encoder.encode(SENTENCES, chunk_tokens=20)
    np.testing.assert_array_equal(first, second)  # no dropout
    assert encoder.training
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


MANY = [f"{text} {number}" for number in range(8) for text in (*SENTENCES, *LOWER_CASE)]


@pytest.mark.parametrize(
    "make",
    [
        partial(tiny_bert, projection="always", normalize=True),
        partial(tiny_bert, template="so: {sentence} !", denoise="pad", denoise_evaluation=True),
        partial(tiny_mistral, pooling="last_token", template="This sentence : {sentence} means"),
    ],
    ids=["projection", "denoise", "prefix"],
)
def test_slices_change_nothing(make: Callable[[], SentenceEncoder], monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = make()
    singly = np.concatenate([encoder.encode([sentence], share_prefix=False) for sentence in MANY])
    monkeypatch.setattr(module, "SLICE", 7)
    np.testing.assert_allclose(encoder.encode(MANY, chunk_tokens=60), singly, atol=2e-6)


def test_the_first_vector_comes_before_the_second_slice_is_tokenised(
    encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    rows, embed = SentenceTokenizer.rows, SentenceEncoder.embed_chunk

    def tokenised(tokenizer: SentenceTokenizer, texts: list[str], *rest: Any) -> TokenizedBatch:
        steps.append(f"{len(texts)} texts")
        return rows(tokenizer, texts, *rest)

    def embedded(self: SentenceEncoder, *rest: Any, **more: Any) -> torch.Tensor:
        steps.append("chunk")
        return embed(self, *rest, **more)

    monkeypatch.setattr(SentenceTokenizer, "rows", tokenised)
    monkeypatch.setattr(SentenceEncoder, "embed_chunk", embedded)
    monkeypatch.setattr(module, "SLICE", 20)
    encoder.encode(MANY[:50], chunk_tokens=10**6)
    assert steps == ["20 texts", "chunk", "20 texts", "chunk", "10 texts", "chunk"]


def test_a_gpu_holds_one_slice_and_never_waits_within(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny_bert(dropout=0.0)
    texts = [f"{number % 97} words" for number in range(600)]
    expected = encoder.encode(texts)
    monkeypatch.setattr(module, "SLICE", 50)
    peaks = []
    with emulated_gpu() as gpu:
        encoder.to("cuda")
        for count in (100, 600):
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            gpu.recording = True
            vectors = encoder.encode(texts[:count], chunk_tokens=200)
            gpu.recording = False
            peaks.append(torch.cuda.max_memory_allocated() - before)
            np.testing.assert_allclose(vectors, expected[:count], atol=1e-6)
        assert {line.partition(":")[0] for line in gpu.synchronisations} == {"an event"}
        assert len(gpu.synchronisations) <= 2  # for the last vectors of each call
    assert peaks[1] <= 1.1 * peaks[0]


@pytest.mark.parametrize(
    "settings",
    [{}, {"template": "so: {sentence}"}, {"template": "so: {sentence} !"}],
    ids=["bare", "template", "template with an end"],
)
def test_truncated_texts_are_counted_once(
    settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = tiny_bert(max_length=8, **settings)
    room = 8 if settings else 6  # beside the special tokens
    texts = ["a" * length for length in range(1, 13)]
    monkeypatch.setattr(module, "SLICE", 5)
    encoder.encode(texts[:room])
    assert caplog.records == []
    encoder.encode(texts)
    [record] = caplog.records
    assert record.getMessage().startswith(f"WARNING: {12 - room} of 12 texts are truncated after 8 tokens")


def test_a_template_that_leaves_no_room_truncates_too(caplog: pytest.LogCaptureFixture) -> None:
    encoder = tiny_bert(max_length=None, template="so: {sentence} !")  # BERT reads 512 tokens
    encoder.set_evaluation()
    encoder.encode(["a " * 600, "b"])
    assert "1 of 2 texts are truncated" in caplog.text
