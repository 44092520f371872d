"""Nomic's BERT against an independent computation in numpy, from the checkpoint's own key names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy.special import expit, softmax

from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.encoding import Base
from sts_lightning.models.loading.backbone import load_backbone
from sts_lightning.testing.tiny_bert import character_tokenizer
from tests.support.exports import stored_again

HEADS, SIZE, INNER, LAYERS, BASE = 3, 24, 40, 2, 500
TEXTS = ["a b c", "the longer one of two sentences"]

CONFIG: dict[str, Any] = {
    "model_type": "nomic_bert",
    "architectures": ["NomicBertModel"],
    "auto_map": {"AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel"},
    "activation_function": "swiglu",
    "attn_pdrop": 0.0,
    "causal": False,
    "embd_pdrop": 0.0,
    "layer_norm_epsilon": 1e-12,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "hidden_size": SIZE,
    "intermediate_size": INNER,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "head_dim": SIZE // HEADS,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "rope_parameters": {"rope_type": "default", "rope_theta": BASE},
    "n_embd": SIZE,
    "n_head": HEADS,
    "n_inner": INNER,
    "n_layer": LAYERS,
    "n_positions": 8192,
    "parallel_block": False,
    "prenorm": False,
    "qkv_proj_bias": False,
    "resid_pdrop": 0.0,
    "rotary_emb_base": BASE,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "type_vocab_size": 2,
    "use_rms_norm": False,
    "vocab_size": len(character_tokenizer()),
}
"""Settings of the published checkpoint and the library's own, with small sizes and another rotation."""

Write = Callable[..., Path]


def shapes() -> dict[str, tuple[int, ...]]:
    """Weights of the published checkpoint by their names: 4, and 9 in each layer."""
    found: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (CONFIG["vocab_size"], SIZE),
        "embeddings.token_type_embeddings.weight": (2, SIZE),
        "emb_ln.weight": (SIZE,),
        "emb_ln.bias": (SIZE,),
    }
    for layer in range(LAYERS):
        name = f"encoder.layers.{layer}"
        found |= {
            f"{name}.attn.Wqkv.weight": (3 * SIZE, SIZE),
            f"{name}.attn.out_proj.weight": (SIZE, SIZE),
            f"{name}.mlp.fc11.weight": (INNER, SIZE),
            f"{name}.mlp.fc12.weight": (INNER, SIZE),
            f"{name}.mlp.fc2.weight": (SIZE, INNER),
        }
        found |= {
            f"{name}.{norm}.{kind}": (SIZE,) for norm in ("norm1", "norm2") for kind in ("weight", "bias")
        }
    return found


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Write a small random model; arguments change its settings, or add a weight."""

    def folder(extra: str | None = None, **changes: Any) -> Path:
        path = tmp_path_factory.mktemp("nomic")
        generator = torch.Generator().manual_seed(0)
        weights = {name: torch.randn(shape, generator=generator) for name, shape in shapes().items()}
        if extra is not None:
            weights[extra] = torch.zeros(3 * SIZE)
        save_file(weights, path / "model.safetensors")
        (path / "config.json").write_text(json.dumps({**CONFIG, **changes}))
        character_tokenizer().save_pretrained(path)
        return path

    return folder


def by_numpy(weights: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    """One sentence without padding; mean pooling.

    Rotary positions on halves of each head, attention, SwiGLU whose gate is fc12; each sum is normalised.
    """

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    width = SIZE // HEADS
    angles = np.outer(np.arange(len(ids)), BASE ** (-np.arange(0, width, 2) / width))

    def rotated(x: np.ndarray) -> np.ndarray:
        first, second = x[..., : width // 2], x[..., width // 2 :]
        cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    words = weights["embeddings.word_embeddings.weight"][ids]
    hidden = norm(words + weights["embeddings.token_type_embeddings.weight"][0], "emb_ln")
    for layer in range(LAYERS):
        name = f"encoder.layers.{layer}"
        joint = hidden @ weights[f"{name}.attn.Wqkv.weight"].T
        query, key, value = joint.reshape(len(ids), 3, HEADS, width).transpose(1, 0, 2, 3)
        scores = np.einsum("ihd,jhd->hij", rotated(query), rotated(key)) / np.sqrt(width)
        mixed = np.einsum("hij,jhd->ihd", softmax(scores, axis=-1), value).reshape(len(ids), SIZE)
        hidden = norm(hidden + mixed @ weights[f"{name}.attn.out_proj.weight"].T, f"{name}.norm1")
        gate = hidden @ weights[f"{name}.mlp.fc12.weight"].T
        inner = (hidden @ weights[f"{name}.mlp.fc11.weight"].T) * gate * expit(gate)
        hidden = norm(hidden + inner @ weights[f"{name}.mlp.fc2.weight"].T, f"{name}.norm2")
    return hidden.mean(0)


def test_vectors_are_those_of_the_formulas(write: Write) -> None:
    folder = write()
    weights = {
        name: weight.double().numpy() for name, weight in load_file(folder / "model.safetensors").items()
    }
    encoder = SentenceEncoder.from_pretrained(str(folder), max_length=64).eval()
    expected = [by_numpy(weights, ids) for ids in encoder.tokenizer(TEXTS)]
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=2e-5)


def test_every_weight_is_read(write: Write) -> None:
    backbone, _ = load_backbone(Base(str(write())))
    count = sum(parameter.numel() for parameter in backbone.parameters())
    assert count == sum(int(np.prod(shape)) for shape in shapes().values())
    assert (backbone.config.hidden_size, backbone.config.num_hidden_layers) == (SIZE, LAYERS)


def test_settings_in_the_librarys_names_alone(write: Write) -> None:
    """As those of version 1.5."""
    sizes = dict.fromkeys(("n_embd", "n_layer", "n_head", "n_inner", "rotary_emb_base"))
    backbone, _ = load_backbone(Base(str(write(**sizes))))
    assert backbone.config.head_dim == SIZE // HEADS


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("n_embd", 768),
        ("n_layer", 12),
        ("n_head", 12),
        ("n_inner", 3072),
        ("rotary_emb_base", 1000),
        ("prenorm", True),
        ("activation_function", "gelu"),
        ("rotary_emb_fraction", 0.5),
        ("rotary_emb_interleaved", True),
    ],
)
def test_other_architectures_are_rejected(key: str, value: Any, write: Write) -> None:
    with pytest.raises(ConfigError) as error:
        load_backbone(Base(str(write(**{key: value}))))
    assert error.value.key == "model.name"
    assert key in str(error.value)


def test_further_weights_are_rejected(write: Write) -> None:
    with pytest.raises(CheckpointError) as error:
        load_backbone(Base(str(write(extra="encoder.layers.0.attn.Wqkv.bias"))))
    assert "further weights" in str(error.value)
    load_backbone(Base(str(write(extra="cls.predictions.bias"))))  # a language-model head is not used


def test_a_model_folder_comes_back(write: Write, tmp_path: Path) -> None:
    assert stored_again(SentenceEncoder.from_pretrained(str(write())), tmp_path / "model") is None
