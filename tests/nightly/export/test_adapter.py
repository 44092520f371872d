"""Adapters against peft."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from peft import PeftModel
from safetensors import safe_open
from transformers import AutoTokenizer

from sts_lightning.export.export import export
from sts_lightning.testing.tiny_decoders import tiny_mistral
from tests.support.exports import DECODER, Config, trained


def test_peft_reads_the_adapter(config: Config, tmp_path: Path) -> None:
    encoder = trained(tmp_path / "run", config, *DECODER)
    export(tmp_path / "run", tmp_path / "out", "adapter")
    base = tiny_mistral().backbone
    model = PeftModel.from_pretrained(base, tmp_path / "out").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    ids = tokenizer("x", return_tensors="pt")  # which puts the template around it
    theirs = model(**ids).last_hidden_state[0, -1].detach().numpy()
    np.testing.assert_allclose(theirs, encoder.encode(["x"])[0], atol=1e-5)
    with safe_open(tmp_path / "out" / "adapter_model.safetensors", "np") as weights:
        assert all("lora_" in name for name in weights.keys())  # noqa: SIM118 # not a mapping
    settings = json.loads((tmp_path / "out" / "sts_lightning.json").read_text())["encoding"]
    assert settings["template"] == 'This sentence : "{sentence}" means in one word:"'
    assert settings["pooling"] == "last_token"
