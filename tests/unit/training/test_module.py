"""Micro batches give the gradient of the whole batch, dropout included."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sts_lightning.data.collate import Batch
from sts_lightning.data.table import Table
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.text.chunks import TokenizedBatch
from sts_lightning.papers.auxiliary.second_encoder import SecondEncoder
from sts_lightning.regularizers.rank_reduction import RankReduction
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.module import STSModule
from tests.support.loss_cases import make
from tests.support.sentences import TEXTS


def gradient(
    encoder: SentenceEncoder,
    loss: str,
    micro_batch_size: int | None,
    regularizer: RankReduction | None = None,
    autocast: torch.dtype | None = None,
    recompute: bool = True,
) -> tuple[Tensor, int]:
    """Of all that trains, and how many chunks there were."""
    head = make(loss, encoder.dimension).float()
    unused: Any = None
    module = STSModule(
        encoder, head, unused, unused, regularizer=regularizer, micro_batch_size=micro_batch_size
    ).train()
    num_views = max(head.needs.views)
    views = [TEXTS[number:] + TEXTS[:number] for number in range(num_views)]
    rows: TokenizedBatch = encoder.prepare(10_000, training=True)(views, [None] * num_views)
    labels = None if head.needs.labels[0] == "none" else torch.linspace(0, 5, len(TEXTS))
    module.zero_grad()
    torch.manual_seed(2)
    calls: list[int] = []
    hook = encoder.backbone.register_forward_hook(lambda *_: calls.append(1))
    batch = Batch(rows, num_views, labels, len(TEXTS))
    if not recompute:  # the same chunks
        batch = replace(batch, rows=module.chunks_of(batch)[0])
        module.micro_batch_size = None
    with torch.autocast("cpu", autocast) if autocast else nullcontext():
        embedded = module.embed_views(batch)
    ids = torch.arange(num_views * len(TEXTS)).view(num_views, -1) % 5
    value = head(embedded, labels, **({"sentence_ids": ids} if "sentence_ids" in head.needs.inputs else {}))
    if regularizer is not None:
        value = value + regularizer(embedded)
    forward_calls = len(calls)
    value.backward()
    hook.remove()
    trained = [p for p in module.parameters() if p.requires_grad and p.grad is not None]
    return torch.cat([p.grad.flatten() for p in trained if p.grad is not None]), forward_calls


def assert_same(one: Tensor, two: Tensor, tolerance: float = 1e-6) -> None:
    assert one.abs().max() > 0
    assert (one - two).abs().max() <= tolerance * one.abs().max()


CACHED = ("infonce", "pearson", "spearman", "cosent", "smooth_k2", "ibn", "listnet")

CACHED += (
    "concordance",
    "rank_kl",
    "pro",
    "bixse",
    "sigmoid",
    "gist",
    "hardness",
    "matryoshka",
    "divided",
)

CACHED += ("decoupled", "energy", "mixcse")


@pytest.mark.parametrize("loss", CACHED)
@pytest.mark.parametrize("regularizer", [None, RankReduction(0.5)], ids=["", "rank_reduction"])
def test_equals_the_whole_batch(loss: str, regularizer: RankReduction | None) -> None:
    """Without dropout, where the draws do not depend on the chunks: against one chunk of all rows."""
    encoder = tiny_bert(dropout=0.0)
    whole, one = gradient(encoder, loss, None, regularizer)
    cached, several = gradient(encoder, loss, 2, regularizer)
    assert (one, several) == (1, 4)
    assert_same(whole, cached, 2e-5)


@pytest.mark.parametrize("what", ["micro batches", "layers", "both"])
def test_dropout_is_drawn_again_where_torch_does_not_see_to_it(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for an Apple GPU, whose random state torch's checkpoints leave as it is."""
    encoder = tiny_bert(dropout=0.1)
    kept, _ = gradient(encoder, "infonce", 3, recompute=False)
    careless = partial(checkpoint, preserve_rng_state=False)
    for module in ("sts_lightning.models.compute.gradient_cache", "transformers.modeling_utils"):
        monkeypatch.setattr(f"{module}.checkpoint", careless)
    if what != "micro batches":
        encoder.checkpoint_layers()  # transformers binds the function here
    monkeypatch.setattr("torch.mps.get_rng_state", torch.get_rng_state)
    monkeypatch.setattr("torch.mps.set_rng_state", torch.set_rng_state)
    for owner in (SentenceEncoder, type(encoder.backbone)):
        monkeypatch.setattr(owner, "device", torch.device("mps"))
    again, _ = gradient(encoder, "infonce", 3, recompute=what != "layers")
    assert torch.equal(again, kept)


def passes(module: STSModule, rows: TokenizedBatch, size: int) -> tuple[int, Tensor]:
    """Of a step through the backbone, and the gradient."""
    calls: list[int] = []
    hook = module.encoder.backbone.register_forward_pre_hook(lambda *_: calls.append(1))
    module.zero_grad()
    torch.manual_seed(2)
    module.embed_views(Batch(rows, 2, None, size)).square().sum().backward()
    hook.remove()
    return len(calls), torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])


@pytest.mark.parametrize(
    ("examples", "tokens", "expected"),
    [
        (8, None, 1),  # as many as the batch
        (100, None, 1),
        (None, 2 * 8 * 17, 1),  # padded tokens of the batch
        (8, 2 * 8 * 17 - 1, 3),  # too many; of the two chunks the second, smaller one is kept
        (5, None, 3),  # 10 and 6 rows
        (3, None, 5),  # 6, 6 and 4 rows
    ],
)
def test_only_what_exceeds_a_micro_batch_is_recomputed(
    examples: int | None, tokens: int | None, expected: int
) -> None:
    """With the gradient of the same chunks without recomputation, to the bit, dropout included."""
    encoder = tiny_bert(dropout=0.1)
    unused: Any = None
    module = STSModule(encoder, make("infonce"), unused, unused, micro_batch_size=examples).train()
    module.budget.tokens = tokens
    texts = ["a " * 15] * 8  # rows of 17 tokens
    rows: TokenizedBatch = encoder.prepare(10_000, training=True)([texts, texts], [None, None])
    chunks = module.chunks_of(Batch(rows, 2, None, 8))[0]
    counted, gradients = passes(module, rows, 8)
    assert counted == expected
    module.micro_batch_size = module.budget.tokens = None
    kept = passes(module, chunks, 8)
    assert kept[0] == len(chunks.chunks)
    assert torch.equal(gradients, kept[1])


def test_rows_of_an_auxiliary_model_count_too() -> None:
    encoder, second = tiny_bert(), SecondEncoder()
    second.connect(encoder)
    unused: Any = None
    module = STSModule(encoder, make("infonce"), unused, unused, auxiliary=second).train()
    rows = encoder.prepare(10_000, training=True)([["a " * 15] * 8], [None])
    for tokens, kept in ((2 * 8 * 17, 1), (2 * 8 * 17 - 1, 0)):
        module.budget.tokens = tokens
        assert module.chunks_of(Batch(rows, 1, None, 8))[1] == kept


def test_memory_that_ran_out_in_a_batch_that_is_kept() -> None:
    """Recomputation comes first where it helps: one chunk has the same peak with it."""
    encoder = tiny_bert()
    unused: Any = None
    texts = ["a " * 15] * 8
    for chunk_tokens, limits in ((8 * 17, [12 * 17, 6 * 17, 4 * 17]), (10_000, [12 * 17, 9 * 17])):
        module = STSModule(encoder, make("infonce"), unused, unused, micro_batch_size=8).train()
        module._trainer = SimpleNamespace(global_step=0)  # type: ignore[assignment]
        rows = encoder.prepare(chunk_tokens, training=True)([texts, texts], [None, None])
        module.on_train_batch_start(Batch(rows, 2, None, 8), 0)
        chunks, kept = module.chunks_of(module._batch)
        assert kept == len(chunks.chunks)
        for limit in limits:
            assert module._smaller() == limit
            module._shrink(limit)
            chunks, kept = module.chunks_of(module._batch)
            assert 1 <= kept < len(chunks.chunks)
    module.on_train_batch_start(Batch(encoder.prepare(9, True)([["x"]], [None]), 1, None, 1), 0)
    assert module._smaller() == 0


@pytest.mark.parametrize(("size", "expected"), [(32, 1), (33, 3)])
def test_auto_on_a_cpu_has_micro_batches_of_32_examples(size: int, expected: int) -> None:
    """Of 33 the last one is kept, the first 32 are computed twice; a GPU starts with all."""
    unused: Any = None
    module = STSModule(tiny_bert(), make("infonce"), unused, unused, micro_batch_size="auto").train()
    rows = module.encoder.prepare(10_000, training=True)([["a b"] * size] * 2, [None, None])
    assert passes(module, rows, size)[0] == expected


def test_recomputation_keeps_no_activations() -> None:
    encoder = tiny_bert(layers=4)
    rows = encoder.prepare(10_000, training=True)([TEXTS * 8], [None]).limited(4)

    def saved(recompute: bool) -> int:
        kept: dict[int, int] = {}

        def pack(tensor: Tensor) -> Tensor:
            kept[tensor.data_ptr()] = tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            encoder.train()(rows, 0 if recompute else None)
        return sum(kept.values())

    assert saved(recompute=True) < saved(recompute=False) / 5


def test_an_encoder_that_is_to_train_has_dropout() -> None:
    """Lightning's fit keeps the mode it finds, and an encoder is made in evaluation mode."""
    unused: Any = None
    for frozen, dropout in {"none": True, "encoder_with_dropout": True, "encoder": False}.items():
        encoder = tiny_bert()
        STSModule(encoder, make("smooth_k2", 32), unused, unused, frozen=frozen)  # type: ignore[arg-type]
        assert {part.training for part in encoder.modules()} == {dropout}


def test_the_peak_of_the_gpu_is_that_of_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for CUDA's statistics; the search of a micro batch and evaluations take more than a step."""
    card = {"peak": 0}
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.max_memory_allocated", lambda: card["peak"])
    monkeypatch.setattr("torch.cuda.reset_peak_memory_stats", lambda: card.update(peak=0))
    monkeypatch.setattr(STSModule, "device", torch.device("cuda"))
    unused: Any = None
    module = STSModule(tiny_bert(), make("pearson"), unused, unused)

    def use(size: int) -> None:
        card["peak"] = max(card["peak"], size)

    use(900)  # the dev evaluation before the first step, and the search
    module.on_validation_start()
    module.on_validation_end()
    use(800)
    module.on_train_start()
    for step in (50, 70, 60):
        use(step)
        module.on_validation_start()
        use(500)
        module.on_validation_end()
    use(10)
    assert max(card["peak"], module.steps_peak) == 70


def test_one_line_for_each_dev_evaluation(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    unused: Any = None
    module: Any = STSModule(tiny_bert(), make("pearson"), unused, unused)
    dev = Table({"sentence1": [*"abcd"], "sentence2": [*"efgh"], "label": [0.0, 1.0, 2.0, 5.0]})
    module._trainer = SimpleNamespace(datamodule=SimpleNamespace(dev=dev), current_epoch=0)
    monkeypatch.setattr(STSModule, "log", lambda *arguments, **settings: None)
    caplog.set_level("INFO")
    for step, loss, cosines in ((0, None, [0.1, 0.2, 0.3, 0.4]), (8, 0.5, [0.1, 0.3, 0.2, 0.4])):
        monkeypatch.setattr(STSModule, "global_step", step)
        module._last_loss = loss
        module._dev_found = [np.array(cosines)]
        module.on_validation_epoch_end()
    assert caplog.messages == ["step 0, dev Spearman 100.00", "step 8, loss 0.5000, dev Spearman 80.00"]
