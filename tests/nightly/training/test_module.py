"""Micro batches give the gradient of the whole batch, dropout included."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from omegaconf import DictConfig
from peft import LoraConfig
from torch import Tensor

from sts_lightning.core.errors import TrainingError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.tiny_decoders import tiny_mistral, tiny_opt
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_RUN
from tests.support.interruptions import PowerCut
from tests.support.whole_runs import metrics, same_results, weights
from tests.unit.training.test_micro_batch import limit_memory
from tests.unit.training.test_module import gradient


def adapter() -> LoraConfig:
    return LoraConfig(task_type="FEATURE_EXTRACTION", r=4, lora_dropout=0.2, target_modules="all-linear")


def kinds() -> dict[str, Callable[[], SentenceEncoder]]:
    lora: Any = {"pooling": "last_token", "adapter": adapter()}
    return {
        "bert": tiny_bert,
        "opt": lambda: tiny_opt(**lora),
        "4bit": lambda: tiny_mistral(quantization="4bit", **lora),
        "8bit": lambda: tiny_mistral(quantization="8bit", **lora),
        "4bit bf16": lambda: tiny_mistral(quantization="4bit", dtype="bfloat16", **lora),
    }


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
    monkeypatch.setattr(encoder, "forward", lambda rows, *_, **__: forward(rows))
    kept, _ = gradient(encoder, "infonce", 2, autocast=autocast)
    assert torch.equal(cached, kept)
    monkeypatch.undo()
    other, _ = gradient(encoder, "infonce", 4, autocast=autocast)
    assert not torch.equal(cached, other)  # other chunks draw other masks


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
    limit_memory(monkeypatch, SentenceEncoder, rows=3)
    train_in(tmp_path / "auto", config(*settings, "trainer.micro_batch_size=auto"))
    stored = metrics(tmp_path / "auto")
    assert stored["micro_batch_size"] == "auto"
    assert 0 < stored["micro_batch_tokens"] <= 3 * 64
    for name, value in weights(tmp_path / "whole").items():
        torch.testing.assert_close(weights(tmp_path / "auto")[name], value, atol=2e-5, rtol=1e-3)


def test_out_of_memory_names_the_setting(
    config: Callable[..., DictConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_memory(monkeypatch, SentenceEncoder, rows=0.01)
    cfg = config(*SHORT_RUN, "data.batch_size=16", "trainer.max_epochs=1", "logger=csv")
    with pytest.raises(TrainingError, match=r"memory ran out at step 1\. trainer\.micro_batch_size=16"):
        train_in(tmp_path / "run", cfg)


class Limit(Callback):
    """Sets the limit of micro batches before a step, as if memory had run out in it."""

    def __init__(self, step: int, tokens: int | None) -> None:
        self.step, self.tokens = step, tokens

    def on_train_batch_start(self, trainer: pl.Trainer, module: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step + 1 == self.step:
            module.budget.tokens = self.tokens


class ShortAt(Callback):
    """Lets memory run out once, in the second chunk's backward pass of a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: pl.Trainer, module: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step + 1 != self.step:
            return
        embed, calls, chunks = module.encoder.embed_chunk, itertools.count(1), len(batch.rows.chunks)

        def short(*args: Any, **more: Any) -> Tensor:
            if next(calls) == chunks + 2:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            vectors: Tensor = embed(*args, **more)
            return vectors

        module.encoder.embed_chunk = short

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, *args: Any) -> None:
        vars(module.encoder).pop("embed_chunk", None)


@pytest.mark.parametrize(
    "auxiliary", [(), ("loss=infonce", "auxiliary=momentum_queue", "data.kind=sentences", "data.views=2")]
)
def test_a_step_without_memory_is_repeated(
    auxiliary: tuple[str, ...],
    config: Callable[..., DictConfig],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The same to the bit as a run that had the smaller micro batches from that step on, dropout included.

    Memory runs out after a chunk has added its gradient, and an auxiliary queue learns from the step once.
    """
    settings = [*SHORT_RUN, *auxiliary, "data.batch_size=16", "trainer.max_epochs=1", "logger=csv"]
    cfg = config(*settings, "trainer.micro_batch_size=6", "trainer.save_every=1")
    train_in(tmp_path / "short", cfg, callbacks=[ShortAt(3)])
    tokens = metrics(tmp_path / "short")["micro_batch_tokens"]
    assert (
        f"memory ran out at step 3, which is repeated; micro batches now have at most {tokens} "
        in caplog.text
    )
    train_in(tmp_path / "limited", cfg, callbacks=[Limit(3, tokens)])
    train_in(tmp_path / "whole", cfg)
    same_results(tmp_path / "limited", tmp_path / "short")
    short, whole = weights(tmp_path / "short"), weights(tmp_path / "whole")
    assert any(not torch.equal(short[name], whole[name]) for name in short)  # other draws of dropout


def test_a_resumed_run_keeps_its_micro_batches(
    config: Callable[..., DictConfig],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Found by ``auto``, and smaller since memory ran out in a step."""
    settings = [
        *SHORT_RUN,
        "data.batch_size=16",
        "trainer.max_epochs=1",
        "logger=csv",
        "trainer.save_every=1",
    ]
    cfg = config(*settings, "trainer.micro_batch_size=auto")
    with monkeypatch.context() as card:
        limit_memory(card, SentenceEncoder, rows=3)
        train_in(tmp_path / "whole", cfg, callbacks=[ShortAt(2)])
        with pytest.raises(RuntimeError, match="power cut"):
            train_in(tmp_path / "cut", cfg, callbacks=[ShortAt(2), PowerCut(3)])
    assert caplog.text.count("memory ran out at step 2") == 2
    train_in(tmp_path / "cut", RunFolder(tmp_path / "cut").load_config(), resume=True)
    same_results(tmp_path / "whole", tmp_path / "cut")
