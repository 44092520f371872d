"""Micro batches give the gradient of the whole batch, dropout included."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig
from peft import LoraConfig
from torch import Tensor

from sts_lightning.core.errors import TrainingError
from sts_lightning.data.collate import Batch
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.text.tokenizer import TokenizedBatch
from sts_lightning.regularizers.rank_reduction import RankReduction
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.tiny_decoders import tiny_mistral, tiny_opt
from sts_lightning.training.module import STSModule
from sts_lightning.workflows.command import train_in
from tests.conftest import SHORT_RUN
from tests.losses.cases import make
from tests.scenarios.helpers import metrics, weights
from tests.sentences import TEXTS
from tests.training.test_micro_batch import limit_memory


def adapter() -> LoraConfig:
    return LoraConfig(task_type="FEATURE_EXTRACTION", r=4, lora_dropout=0.2, target_modules="all-linear")


def gradient(
    encoder: SentenceEncoder,
    loss: str,
    micro_batch_size: int | None,
    regularizer: RankReduction | None = None,
    autocast: torch.dtype | None = None,
) -> tuple[Tensor, int]:
    """Of all that trains, and how many chunks there were."""
    head = make(loss, encoder.dimension).float()
    unused: Any = None
    module = STSModule(
        encoder, head, unused, unused, regularizer=regularizer, micro_batch_size=micro_batch_size
    ).train()
    num_views = max(head.views)
    views = [TEXTS[number:] + TEXTS[:number] for number in range(num_views)]
    rows: TokenizedBatch = encoder.prepare(10_000, training=True)(views, [None] * num_views)
    labels = None if head.labels[0] == "none" else torch.linspace(0, 5, len(TEXTS))
    module.zero_grad()
    torch.manual_seed(2)
    calls: list[int] = []
    hook = encoder.backbone.register_forward_hook(lambda *_: calls.append(1))
    with torch.autocast("cpu", autocast) if autocast else nullcontext():
        embedded = module.embed_views(Batch(rows, num_views, labels, len(TEXTS)))
    ids = torch.arange(num_views * len(TEXTS)).view(num_views, -1) % 5
    value = head(embedded, labels, **({"sentence_ids": ids} if "sentence_ids" in head.takes else {}))
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


CACHED = ("infonce", "pearson", "spearman", "cosent", "smooth_k2", "ibn", "listnet", "listmle")
CACHED += ("concordance", "kendall", "gated_angle", "sigmoid", "gist", "hardness", "matryoshka", "divided")
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


def kinds() -> dict[str, Callable[[], SentenceEncoder]]:
    lora: Any = {"pooling": "last_token", "adapter": adapter()}
    return {
        "bert": tiny_bert,
        "opt": lambda: tiny_opt(**lora),
        "4bit": lambda: tiny_mistral(quantization="4bit", **lora),
        "8bit": lambda: tiny_mistral(quantization="8bit", **lora),
        "4bit bf16": lambda: tiny_mistral(quantization="4bit", dtype="bfloat16", **lora),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(kinds()))
@pytest.mark.parametrize("checkpoint_layers", [False, True])
def test_draws_the_same_dropout_again(
    kind: str, checkpoint_layers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same chunks with and without recomputation: the same masks, the same gradient to the last bit."""
    encoder = kinds()[kind]()
    for name, parameter in encoder.named_parameters():
        if "lora_B" in name:  # zero at first, which would hide the gradient of A
            torch.nn.init.normal_(parameter, std=0.1)
    if checkpoint_layers:
        encoder.checkpoint_layers()
    autocast = torch.bfloat16 if "bf16" in kind else None
    cached, _ = gradient(encoder, "infonce", 2, autocast=autocast)
    forward = encoder.forward
    monkeypatch.setattr(encoder, "forward", lambda rows, recompute=False: forward(rows))
    kept, _ = gradient(encoder, "infonce", 2, autocast=autocast)
    assert torch.equal(cached, kept)
    monkeypatch.undo()
    other, _ = gradient(encoder, "infonce", 4, autocast=autocast)
    assert not torch.equal(cached, other)  # other chunks draw other masks


def test_recomputation_keeps_no_activations() -> None:
    encoder = tiny_bert(layers=4)
    rows = encoder.prepare(10_000, training=True)([TEXTS * 8], [None]).limited(4)

    def saved(recompute: bool) -> int:
        kept: dict[int, int] = {}

        def pack(tensor: Tensor) -> Tensor:
            kept[tensor.data_ptr()] = tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            encoder.train()(rows, recompute)
        return sum(kept.values())

    assert saved(recompute=True) < saved(recompute=False) / 5


def test_a_run_with_micro_batches_ends_where_one_without_ends(
    config: Callable[..., DictConfig], tmp_path: Path
) -> None:
    settings = [*SHORT_RUN, "model.dropout=0", "data.batch_size=16", "trainer.max_epochs=1", "logger=csv"]
    train_in(tmp_path / "whole", config(*settings))
    train_in(tmp_path / "micro", config(*settings, "trainer.micro_batch_size=6"))  # 6, 6 and 4
    assert metrics(tmp_path / "micro")["dev"]["spearman"] == pytest.approx(
        metrics(tmp_path / "whole")["dev"]["spearman"], abs=0.05
    )
    for name, value in weights(tmp_path / "whole").items():
        torch.testing.assert_close(weights(tmp_path / "micro")[name], value, atol=2e-5, rtol=1e-3)


def test_auto_in_a_run_leaves_the_result_as_it_is(
    config: Callable[..., DictConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [*SHORT_RUN, "model.dropout=0", "data.batch_size=16", "trainer.max_epochs=1", "logger=csv"]
    train_in(tmp_path / "whole", config(*settings))
    limit_memory(monkeypatch, SentenceEncoder, rows=13)
    train_in(tmp_path / "auto", config(*settings, "trainer.micro_batch_size=auto"))
    assert metrics(tmp_path / "auto")["micro_batch_size"] == 4
    for name, value in weights(tmp_path / "whole").items():
        torch.testing.assert_close(weights(tmp_path / "auto")[name], value, atol=2e-5, rtol=1e-3)


def test_out_of_memory_names_the_setting(
    config: Callable[..., DictConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_memory(monkeypatch, SentenceEncoder, rows=3)
    cfg = config(*SHORT_RUN, "data.batch_size=16", "trainer.max_epochs=1", "logger=csv")
    with pytest.raises(TrainingError, match=r"memory ran out at step 1\. trainer\.micro_batch_size=16"):
        train_in(tmp_path / "run", cfg)


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
