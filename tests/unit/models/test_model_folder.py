"""Model folders: what is written is read again, by us and by sentence-transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, PrefixTuningConfig

from sts_lightning.core.errors import CheckpointError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.folder import load_weights, write_model
from sts_lightning.models.loading.pipeline import read_model
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.tiny_decoders import tiny_llama
from tests.support.exports import stored_again
from tests.support.families import NEEDED, tiny, write

TEXTS = ["A Dog runs, it's fast.", "no", "x " * 90, ""]
LORA = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False, lora_alpha=3)
PREFIX = PrefixTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=3)
SHORT: dict[str, Any] = {"hidden_size": 16, "layers": 2, "heads": 2}
MASKED = 'This "{sentence}" means {mask}.'

SAYABLE: dict[str, dict[str, Any]] = {
    "mean": {},
    "cls, normalised": {"pooling": "cls", "normalize": True},
    "dense": {"projection": "always"},
    "dropped dense": {"projection": "train"},
    "truncated": {"truncate_dim": 5},
    "template": {"template": "say {sentence} twice"},
    "prompts by role": {"query": "q: ", "document": "d: "},
    "short": {"max_length": 20, "evaluation_length": "training"},
    "read to the limit": {"max_length": 20, "limit": 40, "evaluation_length": None},
}
UNSAYABLE: dict[str, dict[str, Any]] = {
    "mask token": {"pooling": "mask_token", "template": MASKED},
    "inner layer": {"layer": -2},
    "first and last": {"pooling": "first_last_mean"},
    "edited": {"text_edit": "official"},
    "denoised": {"template": "say {sentence} twice", "denoise": "shift", "denoise_evaluation": True},
}


def changed(encoder: SentenceEncoder) -> SentenceEncoder:
    """Change all weights, so that none is one that a seed would draw again."""
    with torch.no_grad():
        for weight in encoder.parameters():
            if weight.is_floating_point():
                weight.add_(0.01 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(3)))
    return encoder


@pytest.mark.parametrize("name", [*SAYABLE, *UNSAYABLE])
def test_all_settings_and_weights_come_back(name: str, tmp_path: Path) -> None:
    encoder = changed(tiny_bert(**SHORT, **(SAYABLE | UNSAYABLE)[name]))
    write_model(encoder, tmp_path / "model", {"head": torch.ones(2)}, 7, "16-true")
    again, precision = read_model(str(tmp_path / "model"))
    assert again.config == encoder.config
    assert precision == "16-true"
    for (key, value), other in zip(again.state_dict().items(), encoder.state_dict().values(), strict=True):
        assert torch.equal(value, other), key
    for role in (None, "query", "document"):
        assert np.array_equal(again.encode(TEXTS, prompt=role), encoder.encode(TEXTS, prompt=role))
    fresh = tiny_bert(**SHORT, **(SAYABLE | UNSAYABLE)[name])
    assert list(load_weights(fresh, tmp_path / "model")) == ["head"]
    for (key, value), other in zip(fresh.state_dict().items(), encoder.state_dict().values(), strict=True):
        assert torch.equal(value, other), key


@pytest.mark.parametrize("name", SAYABLE)
def test_sentence_transformers_computes_the_same(name: str, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    encoder = changed(tiny_bert(**SHORT, **SAYABLE[name]))
    write_model(encoder, tmp_path / "model")
    model = library.SentenceTransformer(str(tmp_path / "model"), device="cpu", local_files_only=True)
    assert np.abs(model.encode(TEXTS) - encoder.encode(TEXTS)).max() < 1e-5
    for role, encode in (("query", model.encode_query), ("document", model.encode_document)):
        assert np.abs(encode(TEXTS) - encoder.encode(TEXTS, prompt=role)).max() < 1e-5


@pytest.mark.parametrize("name", UNSAYABLE)
def test_sentence_transformers_refuses_what_it_cannot_say(name: str, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    write_model(tiny_bert(**SHORT, **UNSAYABLE[name]), tmp_path / "model")
    with pytest.raises(ValueError, match=r"sts_lightning\.load"):
        library.SentenceTransformer(str(tmp_path / "model"), device="cpu", local_files_only=True)
    assert json.loads((tmp_path / "model/sts_lightning.json").read_text())["refused"]


@pytest.mark.parametrize("adapter", [LORA, PREFIX], ids=["lora", "prefix"])
@pytest.mark.parametrize("named", [False, True], ids=["made by a function", "of a folder"])
def test_an_adapter_is_stored_without_its_base(adapter: Any, named: bool, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"pooling": "last_token", "template": "{sentence} in one word:"}
    if named:
        base = tiny_llama(**SHORT, adapter=None)
        base.plain_backbone.save_pretrained(tmp_path / "base")
        base.tokenizer.tokenizer.save_pretrained(tmp_path / "base")
        encoder = SentenceEncoder.from_pretrained(str(tmp_path / "base"), adapter=adapter, **settings)
    else:
        encoder = tiny_llama(**SHORT, adapter=adapter, **settings)
    for key, weight in encoder.named_parameters():
        if weight.requires_grad:
            with torch.no_grad():
                weight.add_(
                    0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(len(key)))
                )
    write_model(encoder, tmp_path / "model", step=3)
    assert (tmp_path / "model/base").is_dir() is not named
    assert not (tmp_path / "model/model.safetensors").exists()
    again, _ = read_model(str(tmp_path / "model"))
    assert np.array_equal(again.encode(TEXTS), encoder.encode(TEXTS))
    trained = {key for key, weight in encoder.named_parameters() if weight.requires_grad}
    assert trained == {key for key, weight in again.named_parameters() if weight.requires_grad}


def test_the_library_reads_lora_on_a_named_base(tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    base = tiny_llama(**SHORT, adapter=None)
    base.plain_backbone.save_pretrained(tmp_path / "base")
    base.tokenizer.tokenizer.save_pretrained(tmp_path / "base")
    settings: dict[str, Any] = {"pooling": "last_token", "template": "{sentence} in one word:"}
    encoder = SentenceEncoder.from_pretrained(str(tmp_path / "base"), adapter=LORA, **settings)
    write_model(encoder, tmp_path / "model")
    model = library.SentenceTransformer(str(tmp_path / "model"), device="cpu", local_files_only=True)
    assert np.abs(model.encode(TEXTS) - encoder.encode(TEXTS)).max() < 1e-5


@pytest.mark.parametrize("adapter", [LORA, None], ids=["lora", "frozen"])
def test_a_quantised_base_comes_back_quantised(adapter: Any, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    settings: dict[str, Any] = {"pooling": "last_token", "quantization": "4bit", "device": "cpu"}
    encoder = tiny_llama(hidden_size=64, adapter=adapter, **settings)
    write_model(encoder, tmp_path / "model")
    again, _ = read_model(str(tmp_path / "model"), device="cpu")
    assert again.plain_backbone.is_quantized  # type: ignore[attr-defined]
    assert np.array_equal(again.encode(TEXTS), encoder.encode(TEXTS))


def test_an_unfinished_folder_is_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny_bert(**SHORT)
    write_model(encoder, tmp_path / "model", step=1)

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sts_lightning.models.loading.folder.write_modules", fail)
    with pytest.raises(OSError, match="No space"):
        write_model(encoder, tmp_path / "model", step=2)
    assert json.loads((tmp_path / "model/sts_lightning.json").read_text())["step"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_weights_of_another_model_are_rejected(tmp_path: Path) -> None:
    write_model(tiny_bert(**SHORT), tmp_path / "model")
    with pytest.raises(CheckpointError, match="does not belong to this model"):
        load_weights(tiny_bert(hidden_size=32), tmp_path / "model")
    with pytest.raises(CheckpointError, match="trained with"):
        load_weights(tiny_llama(**SHORT, adapter=LORA), tmp_path / "model")


def test_broken_weights_of_training_are_named(tmp_path: Path) -> None:
    write_model(tiny_bert(**SHORT, projection="train"), tmp_path / "model")
    (tmp_path / "model/training.safetensors").write_bytes(b"noise")
    with pytest.raises(CheckpointError, match=r"training\.safetensors cannot be read"):
        read_model(str(tmp_path / "model"))


def test_settings_of_other_versions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_model(tiny_bert(**SHORT, pooling="cls"), tmp_path / "model")
    path = tmp_path / "model/sts_lightning.json"
    content = json.loads(path.read_text())
    content["encoding"] |= {"of_tomorrow": 3}
    del content["encoding"]["truncate_dim"]
    path.write_text(json.dumps(content))
    encoder, _ = read_model(str(tmp_path / "model"))
    assert encoder.config.pooling == "cls"
    assert "of_tomorrow" in caplog.text
    content["encoding"] = {"pooling": "max"}
    path.write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match="pooling"):
        read_model(str(tmp_path / "model"))


@pytest.mark.parametrize("model_type", ["bart", "m2m_100", "modernbert", "opt", "t5", "xlm-roberta"])
def test_a_family_comes_back(model_type: str, tmp_path: Path) -> None:
    """Halves of encoder-decoders too, which other libraries have beside a decoder alone."""
    folder = write(tiny(model_type, **NEEDED.get(model_type, {})), tmp_path / "base")
    encoder = SentenceEncoder.from_pretrained(folder, max_length=64)
    assert (stored_again(encoder, tmp_path / "model") is None) == (model_type not in ("bart", "m2m_100"))
    fresh = SentenceEncoder.from_pretrained(folder, max_length=64)
    load_weights(fresh, tmp_path / "model")
    assert np.array_equal(fresh.encode(TEXTS), encoder.encode(TEXTS))
