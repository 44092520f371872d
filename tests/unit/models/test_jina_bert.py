"""Jina's BERT against an independent computation in numpy, from the checkpoint's own key names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy.special import erf, softmax
from transformers import BertConfig

from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.export.merged import save_backbone
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.jina import JinaBertModel, head_slopes
from sts_lightning.testing.tiny_bert import character_tokenizer
from tests.support.exports import stored_again

HEADS = 6
TEXTS = ["a b c", "the longer one of two sentences"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random model with the names and settings of the published checkpoint."""
    path = tmp_path_factory.mktemp("jina")
    tokenizer = character_tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        intermediate_size=40,
        attention_probs_dropout_prob=0.0,
        position_embedding_type="alibi",
        feed_forward_type="geglu",
        auto_map={"AutoModel": "jinaai/jina-bert-implementation--modeling_bert.JinaBertModel"},
    )
    generator = torch.Generator().manual_seed(0)
    shapes = {
        "embeddings.word_embeddings.weight": (len(tokenizer), 24),
        "embeddings.token_type_embeddings.weight": (2, 24),
        "embeddings.LayerNorm.weight": (24,),
        "embeddings.LayerNorm.bias": (24,),
        "pooler.dense.weight": (24, 24),
        "pooler.dense.bias": (24,),
    }
    for layer in range(2):
        for name in (
            "attention.self.query",
            "attention.self.key",
            "attention.self.value",
            "attention.output.dense",
        ):
            shapes[f"encoder.layer.{layer}.{name}.weight"] = (24, 24)
            shapes[f"encoder.layer.{layer}.{name}.bias"] = (24,)
        shapes[f"encoder.layer.{layer}.mlp.gated_layers.weight"] = (80, 24)
        shapes[f"encoder.layer.{layer}.mlp.wo.weight"] = (24, 40)
        for name in ("mlp.wo.bias", "attention.output.LayerNorm.weight", "attention.output.LayerNorm.bias"):
            shapes[f"encoder.layer.{layer}.{name}"] = (24,)
        for name in ("mlp.layernorm.weight", "mlp.layernorm.bias"):
            shapes[f"encoder.layer.{layer}.{name}"] = (24,)
    weights = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    save_file({name: weight.half() for name, weight in weights.items()}, path / "model.safetensors")
    config.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def by_numpy(weights: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    """One sentence without padding, written from the papers' formulas; mean pooling."""

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)

    hidden = weights["embeddings.word_embeddings.weight"][ids]
    hidden = norm(hidden + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    # 4 heads: 2^-2, 2^-4, 2^-6, 2^-8; the other two: every second slope of 8 heads, 2^-1, 2^-2, 2^-3, ...
    slopes = [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3]
    distance = np.abs(np.subtract.outer(np.arange(len(ids)), np.arange(len(ids))))
    for layer in range(2):
        name = f"encoder.layer.{layer}"
        query, key, value = (
            linear(hidden, f"{name}.attention.self.{part}").reshape(len(ids), HEADS, 4)
            for part in ("query", "key", "value")
        )
        heads = [
            softmax(query[:, h] @ key[:, h].T / 2.0 - slopes[h] * distance, axis=-1) @ value[:, h]
            for h in range(HEADS)
        ]
        attended = linear(np.concatenate(heads, axis=-1), f"{name}.attention.output.dense")
        hidden = norm(attended + hidden, f"{name}.attention.output.LayerNorm")
        gated = linear(hidden, f"{name}.mlp.gated_layers")
        gate, up = gated[:, :40], gated[:, 40:]
        gelu = gate * 0.5 * (1 + erf(gate / np.sqrt(2)))
        hidden = norm(linear(gelu * up, f"{name}.mlp.wo") + hidden, f"{name}.mlp.layernorm")
    mean: np.ndarray = hidden.mean(0)
    return mean


def test_vectors_equal_the_formulas(folder: Path) -> None:
    encoder = SentenceEncoder.from_pretrained(str(folder))
    assert isinstance(encoder.backbone, JinaBertModel)
    weights = {
        name: weight.double().numpy() for name, weight in load_file(folder / "model.safetensors").items()
    }
    expected = [by_numpy(weights, encoder.tokenizer.tokenizer(text)["input_ids"]) for text in TEXTS]
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=2e-5)


def test_gradients_with_and_without_checkpointing(folder: Path) -> None:
    found = []
    for checkpointed in (False, True):
        encoder = SentenceEncoder.from_pretrained(str(folder)).eval()
        if checkpointed:
            encoder.checkpoint_layers()
        encoder.train()
        for module in encoder.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        encoder(encoder.tokenizer.rows(TEXTS, 1000)).square().sum().backward()
        found.append(encoder.backbone.encoder.layer[0].mlp.gated_layers.weight.grad)
    torch.testing.assert_close(*found)
    assert found[0].norm() > 0


@pytest.mark.parametrize(
    ("heads", "expected"),
    [(1, [2.0**-8]), (8, [2.0**-k for k in range(1, 9)]), (3, [2.0**-4, 2.0**-8, 2.0**-2])],
)
def test_slopes(heads: int, expected: list[float]) -> None:
    assert head_slopes(heads) == pytest.approx(expected)


def test_a_variant_with_further_weights_is_rejected(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(folder / "model.safetensors")
    weights["encoder.layer.0.attention.self.layer_norm_q.weight"] = torch.ones(24)
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="layer_norm_q"):
        SentenceEncoder.from_pretrained(str(tmp_path))


def test_no_other_library_could_load_an_export(folder: Path, tmp_path: Path) -> None:
    encoder: Any = SentenceEncoder.from_pretrained(str(folder))
    with pytest.raises(ConfigError, match="--format adapter"):
        save_backbone(encoder.backbone, tmp_path)
    assert "JinaBertModel" in str(stored_again(encoder, tmp_path / "model"))
