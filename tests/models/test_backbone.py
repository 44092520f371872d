"""Files that are not loaded, and what the message says to do."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer

from sts_lightning.errors import CheckpointError, ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from tests.models.families import tiny, write

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
