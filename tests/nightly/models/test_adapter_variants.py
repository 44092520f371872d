"""Variants of adapters: trained, loaded again, and exported, they give the same vectors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from check_gpu import write_mistral
from omegaconf import DictConfig
from peft import PeftModel
from transformers import AutoModel, MistralConfig, PreTrainedModel

import sts_lightning
from sts_lightning.core.errors import ConfigError, InterruptedRunError
from sts_lightning.export.export import export
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.folder import load_weights
from sts_lightning.models.loading.run import model_folder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_DATA
from tests.support.exports import STEPS
from tests.support.interruptions import StopAt

Config = Callable[..., DictConfig]

TEXTS = ["A dog runs.", "x"]

EMBEDDINGS = "task_type: FEATURE_EXTRACTION, r: 4, target_modules: [q_proj, embed_tokens]"

DECODER = ["model.dtype=float32", "model.quantization=none", "model.adapter.r=4"]

VARIANTS = {
    "lora": DECODER,
    "rslora": [*DECODER, "+model.adapter.use_rslora=true"],
    "dora": [*DECODER, "+model.adapter.use_dora=true"],
    "orthogonal": [*DECODER, "+model.adapter.init_lora_weights=orthogonal"],
    "embeddings and whole layers": [
        f"model.adapter={{_target_: peft.LoraConfig, {EMBEDDINGS}, modules_to_save: [norm]}}"
    ],
    "dora in 4 bit": ["model.dtype=float32", "model.adapter.r=4", "+model.adapter.use_dora=true"],
}

PREFIX = [
    "model.adapter={_target_: peft.PrefixTuningConfig, task_type: FEATURE_EXTRACTION, num_virtual_tokens: 4}"
]


class AtEnd(pl.Callback):
    """Remembers what training ends with."""

    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        encoder: SentenceEncoder = pl_module.encoder
        self.vectors = encoder.encode(TEXTS)
        self.weights = {
            name: value.detach().clone() for name, value in encoder.named_parameters() if value.requires_grad
        }
        self.loss = float(trainer.callback_metrics["train/loss"])


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    shape = MistralConfig(
        vocab_size=259,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
    )
    write_mistral(folder, shape)
    return folder


def overrides(base: Path, own: list[str]) -> list[str]:
    kind = "encoder" if own[0].startswith("model.adapter={") else "mistral7b"
    start = [f"model={kind}", f"model.name={base}", "trainer=cpu", "optim.warmup=0"]
    short = ["data.train_size=64", "data.dev_size=8", "evaluation.final=false", "trainer.save_every=1"]
    return [*start, *SHORT_DATA, *STEPS, *short, *own]


def vectors_of(encoder: SentenceEncoder, backbone: PreTrainedModel | PeftModel) -> np.ndarray:
    """Embed with another backbone in place of the encoder's."""
    encoder.backbone = backbone.eval()
    return encoder.encode(TEXTS)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_run_loads_and_merges_as_it_was_trained(
    variant: str, base: Path, config: Config, tmp_path: Path
) -> None:
    run, end = RunFolder(tmp_path / "run"), AtEnd()
    train_in(run.path, config(*overrides(base, VARIANTS[variant])), callbacks=[end])
    assert np.isfinite(end.loss)
    torch.manual_seed(1)  # not that of the run
    encoder = sts_lightning.load(run.path)
    best = encoder.encode(TEXTS)
    load_weights(encoder, model_folder(run, "final"))
    np.testing.assert_array_equal(encoder.encode(TEXTS), end.vectors)
    export(run.path, tmp_path / "merged", "merged")
    merged = AutoModel.from_pretrained(tmp_path / "merged")
    np.testing.assert_allclose(vectors_of(encoder, merged), best, atol=1e-5)
    export(run.path, tmp_path / "adapter", "adapter")
    again = sts_lightning.load(tmp_path / "adapter")
    np.testing.assert_allclose(again.encode(TEXTS), best, atol=1e-5)


def test_a_prefix_is_read_by_peft_and_not_merged(base: Path, config: Config, tmp_path: Path) -> None:
    run, end = RunFolder(tmp_path / "run"), AtEnd()
    train_in(run.path, config(*overrides(base, PREFIX)), callbacks=[end])
    encoder = sts_lightning.load(run.path)
    best = encoder.encode(TEXTS)
    export(run.path, tmp_path / "adapter", "adapter")
    theirs = PeftModel.from_pretrained(
        AutoModel.from_pretrained(base, dtype=torch.float32), tmp_path / "adapter"
    )
    np.testing.assert_allclose(vectors_of(encoder, theirs), best, atol=1e-5)
    with pytest.raises(ConfigError, match=r"PREFIX_TUNING cannot be merged.*--format adapter"):
        export(run.path, tmp_path / "merged", "merged")
    assert not (tmp_path / "merged").exists()


def test_a_stopped_run_with_a_prefix_resumes(base: Path, config: Config, tmp_path: Path) -> None:
    whole, end = AtEnd(), AtEnd()
    cfg = config(*overrides(base, PREFIX))
    train_in(tmp_path / "whole", cfg, callbacks=[whole])
    run = tmp_path / "run"
    with pytest.raises(InterruptedRunError):
        train_in(run, cfg, callbacks=[StopAt(3)])
    torch.manual_seed(1)
    cfg = RunFolder(run).load_config()
    train_in(run, cfg, callbacks=[end], resume=True)
    assert whole.weights.keys() == end.weights.keys()
    for name, value in whole.weights.items():
        assert torch.equal(value, end.weights[name]), name
