"""Loading of backbones and tokenizers from folders."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    MistralConfig,
    MistralForCausalLM,
)

from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.export.sentence_transformers import write_sentence_transformers
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import character_tokenizer, tiny_bert
from sts_lightning.testing.tiny_decoders import byte_tokenizer
from tests.support.decoders import SENTENCES
from tests.support.exports import stored_again
from tests.support.families import tiny, write


def test_a_tokenizer_without_pad_and_end_token(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer("<s>")
    tokenizer.eos_token = None
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    MistralForCausalLM(MistralConfig(vocab_size=300, num_key_value_heads=1, **sizes)).save_pretrained(
        tmp_path
    )
    tokenizer.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).pad_token is None
    with pytest.raises(ConfigError, match="neither a pad token"):
        SentenceEncoder.from_pretrained(str(tmp_path))


def save_tiny(folder: Path) -> SentenceEncoder:
    encoder = tiny_bert(dropout=0.0, weights_seed=3).eval()
    encoder.backbone.save_pretrained(folder)
    encoder.tokenizer.tokenizer.save_pretrained(folder)
    return encoder


def test_local_folder_gives_the_same_vectors(tmp_path: Path) -> None:
    saved = save_tiny(tmp_path)
    loaded = SentenceEncoder.from_pretrained(str(tmp_path), max_length=64)
    assert next(loaded.parameters()).dtype == torch.float32
    np.testing.assert_allclose(loaded.encode(SENTENCES), saved.encode(SENTENCES), atol=1e-6)


def test_half_precision_files_load_in_float32(tmp_path: Path) -> None:
    encoder = save_tiny(tmp_path)
    encoder.backbone.half().save_pretrained(tmp_path)
    loaded = SentenceEncoder.from_pretrained(str(tmp_path))
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}


def test_missing_weights_are_an_error(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_tiny(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    save_file(
        {name: w for name, w in weights.items() if "layer.1" not in name}, tmp_path / "model.safetensors"
    )
    with pytest.raises(CheckpointError, match="lacks 16 weights of BertModel"):
        SentenceEncoder.from_pretrained(str(tmp_path))


class Call:
    """An object that writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def to_older_format(folder: Path, parts: int = 1) -> None:
    """Replace model.safetensors by what ``torch.save`` writes, in one file or in parts with an index."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    if parts == 1:
        torch.save(weights, folder / "pytorch_model.bin")
        return
    files = [f"pytorch_model-{number + 1:05}-of-{parts:05}.bin" for number in range(parts)]
    names = list(weights)
    for number, file in enumerate(files):
        torch.save({name: weights[name] for name in names[number::parts]}, folder / file)
    index = {name: files[number % parts] for number, name in enumerate(names)}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


@pytest.mark.parametrize("model_type", ["bert", "opt"])
@pytest.mark.parametrize("parts", [1, 3])
def test_weights_of_the_older_format(parts: int, model_type: str, tmp_path: Path) -> None:
    folder = write(tiny(model_type), tmp_path)
    expected = SentenceEncoder.from_pretrained(folder).encode(SENTENCES)
    to_older_format(tmp_path, parts)
    np.testing.assert_array_equal(SentenceEncoder.from_pretrained(folder).encode(SENTENCES), expected)


def test_safetensors_come_first(tmp_path: Path) -> None:
    folder = write(tiny("bert"), tmp_path)
    torch.save({"embeddings": Call(tmp_path / "run")}, tmp_path / "pytorch_model.bin")
    assert SentenceEncoder.from_pretrained(folder).encode(SENTENCES).shape == (len(SENTENCES), 32)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("parts", [1, 3])
def test_a_pickle_with_code_is_not_run(parts: int, tmp_path: Path) -> None:
    folder = write(tiny("bert"), tmp_path)
    to_older_format(tmp_path, parts)
    for path in tmp_path.glob("*.bin"):
        weights = torch.load(path, weights_only=True)
        torch.save({**weights, next(iter(weights)): Call(tmp_path / "run")}, path)
    with pytest.raises(CheckpointError, match="holds more than tensors") as caught:
        SentenceEncoder.from_pretrained(folder)
    assert caught.value.key == "model.name"
    assert not (tmp_path / "run").exists()
    torch.load(next(tmp_path.glob("*.bin")), weights_only=False)
    assert (tmp_path / "run").exists()  # such a pickle does run


def test_model_settings_are_applied_and_checked(tmp_path: Path) -> None:
    save_tiny(tmp_path)
    loaded = SentenceEncoder.from_pretrained(str(tmp_path), config={"hidden_dropout_prob": 0.25})
    assert loaded.backbone.embeddings.dropout.p == 0.25
    with pytest.raises(ConfigError, match="no setting hidden_droput"):
        SentenceEncoder.from_pretrained(str(tmp_path), config={"hidden_droput": 0.25})


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot load"):
        SentenceEncoder.from_pretrained(str(tmp_path))


def test_a_model_that_is_not_cached_fails_at_once_without_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sts_lightning.models.loading.hub.hub_is_reachable", lambda: False)

    def connected(*args: object, **options: object) -> None:
        pytest.fail("the hub was asked")

    monkeypatch.setattr("socket.socket.connect", connected)
    with pytest.raises(ConfigError) as caught:
        SentenceEncoder.from_pretrained("nobody/nothing")
    assert caught.value.key == "model.name"
    assert "folder" in str(caught.value.hint)


def test_no_service_converts_the_older_format(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = write(tiny("bert"), tmp_path)

    def load(*args: object, **options: Any) -> None:
        assert os.environ["DISABLE_SAFETENSORS_CONVERSION"] == "true"
        assert options["weights_only"] is True
        raise OSError("nobody/nothing does not appear to have a file named pytorch_model.bin")

    config = AutoConfig.from_pretrained(folder)
    own = AutoTokenizer.from_pretrained(folder)
    monkeypatch.setattr(AutoConfig, "from_pretrained", lambda *_, **__: config)
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda *_, **__: own)
    monkeypatch.setattr(AutoModel, "from_pretrained", load)
    with pytest.raises(ConfigError, match=r"have a file named pytorch_model.bin") as caught:
        SentenceEncoder.from_pretrained("nobody/nothing@abc")
    assert "model.safetensors (or pytorch_model.bin)" in str(caught.value.hint)


def test_a_gated_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def gated(*args: object, **options: object) -> None:
        raise OSError("You are trying to access a gated repo.\nMake sure to have access to it.")

    monkeypatch.setattr(AutoConfig, "from_pretrained", gated)
    with pytest.raises(ConfigError, match="gated") as caught:
        SentenceEncoder.from_pretrained("meta-llama/Llama-2-7b-hf")
    assert caught.value.key == "model.name"
    assert caught.value.hint is not None
    assert "hf auth login" in caught.value.hint


TEXT_SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "sliding_window": 8,
    "vocab_size": len(character_tokenizer()),
    "layer_types": ["sliding_attention", "full_attention"],
}
IMAGES = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
MULTIMODAL: dict[str, dict[str, Any]] = {
    "gemma3": {"text_config": TEXT_SIZES, "vision_config": {**IMAGES, "image_size": 16, "patch_size": 8}},
    "embedding_gemma2": {  # the output is wider than the hidden states
        "text_config": {**TEXT_SIZES, "hidden_size_per_layer_input": 8, "embedding_dim": 48},
        "vision_config": None,
        "audio_config": None,
    },
}


@pytest.mark.parametrize("model_type", list(MULTIMODAL))
def test_a_multimodal_model_reads_text(model_type: str, tmp_path: Path) -> None:
    """Vectors of the library's whole model; the export is its text model."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        whole = AutoModel.from_config(AutoConfig.for_model(model_type, **MULTIMODAL[model_type])).eval()
    folder = write(whole, tmp_path / "model")
    encoder = SentenceEncoder.from_pretrained(folder, config={"attention_dropout": 0.25}, pooling="mean")
    assert encoder.plain_backbone.config.attention_dropout == 0.25
    assert encoder.tokenizer.lengths.positions is not None
    assert encoder.tokenizer.lengths.positions + encoder.tokenizer.lengths.added == 256
    expected = []
    for text in SENTENCES:
        ids = character_tokenizer()(text, return_tensors="pt", return_token_type_ids=False)
        expected.append(whole(**ids).last_hidden_state[0].mean(dim=0).detach().numpy())
    vectors = encoder.encode(SENTENCES)
    assert vectors.shape == (len(SENTENCES), encoder.dimension)
    np.testing.assert_allclose(vectors, np.stack(expected), atol=1e-5 * abs(vectors).max())
    assert encoder.causal == (model_type == "gemma3")
    assert stored_again(encoder, tmp_path / "model") is None
    write_sentence_transformers(encoder, tmp_path / "out")
    library = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    np.testing.assert_allclose(
        library.encode(SENTENCES), encoder.encode(SENTENCES), atol=1e-5 * abs(vectors).max()
    )
