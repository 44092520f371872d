"""Loading of backbones and tokenizers from folders."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    MistralConfig,
    MistralForCausalLM,
)

from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.tiny_decoders import byte_tokenizer
from tests.support.decoders import SENTENCES
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
    from safetensors.torch import load_file, save_file

    save_tiny(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    save_file(
        {name: w for name, w in weights.items() if "layer.1" not in name}, tmp_path / "model.safetensors"
    )
    with pytest.raises(CheckpointError, match="lacks 16 weights of BertModel"):
        SentenceEncoder.from_pretrained(str(tmp_path))


def test_only_safetensors_are_loaded(tmp_path: Path) -> None:
    encoder = save_tiny(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(encoder.backbone.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="other formats are not loaded"):
        SentenceEncoder.from_pretrained(str(tmp_path))


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


TEXTS = ["a dog", "someone plays a guitar"]


@pytest.mark.parametrize("model_type", ["bert", "opt"])
def test_a_model_of_the_older_format_can_be_converted_as_the_message_says(
    model_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tiny(model_type), tmp_path / "model")
    expected = SentenceEncoder.from_pretrained(folder).encode(TEXTS)
    (tmp_path / "model" / "model.safetensors").unlink()
    torch.save(tiny(model_type).state_dict(), tmp_path / "model" / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="other formats are not loaded") as caught:
        SentenceEncoder.from_pretrained(folder)
    assert caught.value.key == "model.name"
    assert caught.value.hint is not None
    code = caught.value.hint.partition('python -c "')[2].partition('" and set')[0]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "hint", "exec"), {})
    np.testing.assert_allclose(SentenceEncoder.from_pretrained("FOLDER").encode(TEXTS), expected, atol=1e-6)


def test_the_hub_has_only_the_older_format(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The library's own message, and no conversion by a service."""
    folder = write(tiny("bert"), tmp_path)
    text = (
        "facebook/opt-6.7b does not appear to have a file named model.safetensors or "
        "model.safetensors.index.json and thus cannot be loaded with `safetensors`."
    )

    def absent(*args: object, **options: object) -> None:
        assert os.environ["DISABLE_SAFETENSORS_CONVERSION"] == "true"
        raise OSError(text)

    config = AutoConfig.from_pretrained(folder)
    own = AutoTokenizer.from_pretrained(folder)
    monkeypatch.setattr(AutoConfig, "from_pretrained", lambda *_, **__: config)
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda *_, **__: own)
    monkeypatch.setattr(AutoModel, "from_pretrained", absent)
    with pytest.raises(CheckpointError) as caught:
        SentenceEncoder.from_pretrained("facebook/opt-6.7b@abc")
    assert caught.value.hint is not None
    assert "'facebook/opt-6.7b', 'abc'" in caught.value.hint


def test_a_gated_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def gated(*args: object, **options: object) -> None:
        raise OSError("You are trying to access a gated repo.\nMake sure to have access to it.")

    monkeypatch.setattr(AutoConfig, "from_pretrained", gated)
    with pytest.raises(ConfigError, match="gated") as caught:
        SentenceEncoder.from_pretrained("meta-llama/Llama-2-7b-hf")
    assert caught.value.key == "model.name"
    assert caught.value.hint is not None
    assert "hf auth login" in caught.value.hint
