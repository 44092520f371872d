"""Exports against the libraries that read them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from omegaconf import DictConfig
from peft import PeftModel
from safetensors import safe_open
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

import sts_lightning
from sts_lightning.errors import CheckpointError, ConfigError
from sts_lightning.export.export import export
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_decoders import tiny_mistral
from sts_lightning.workflows.train import train_in
from tests.conftest import SHORT_RUN

Config = Callable[..., DictConfig]

TEXTS = ["The boy hid a rug .", 'A "farmer', "Who sings?", "x", "much longer than " * 8]
STEPS = ["data.batch_size=8", "trainer.max_epochs=-1", "trainer.max_steps=3", "optim.lr=1e-2", "logger=csv"]
DECODER = ["model=tiny_mistral", "prompt=eol"]


def trained(run: Path, config: Config, *overrides: str) -> SentenceEncoder:
    start = [
        text for text in SHORT_RUN if not (text.startswith("model=") and "model=" in " ".join(overrides))
    ]
    train_in(run, config(*start, *STEPS, "evaluation.final=false", *overrides))
    return sts_lightning.load(run)


CASES = {
    "bert": ([], 1e-5),
    "bert, cls, projection": (["model.pooling=cls", "model.projection=always"], 1e-5),
    "bert, mask": (["prompt=promptbert"], 1e-5),
    "decoder": (DECODER, 1e-5),
    "decoder, edited": ([*DECODER, "evaluation.text_edit=official"], 1e-5),
    "4 bit": ([*DECODER, "model.quantization=4bit"], 1e-4),
    "4 bit bf16": ([*DECODER, "model.quantization=4bit", "model.dtype=bfloat16"], 1e-2),
    "8 bit": ([*DECODER, "model.quantization=8bit"], 1e-2),  # LLM.int8() rounds activations too
}


@pytest.mark.parametrize("case", list(CASES))
def test_sentence_transformers_gives_the_same_vectors(case: str, config: Config, tmp_path: Path) -> None:
    overrides, tolerance = CASES[case]
    encoder = trained(tmp_path / "run", config, *overrides)
    export(tmp_path / "run", tmp_path / "out", "sentence-transformers")
    model = SentenceTransformer(str(tmp_path / "out"), device="cpu", trust_remote_code=True)
    ours = encoder.encode(TEXTS)
    theirs = model.encode(TEXTS, convert_to_tensor=True).float().numpy()
    lengths = np.linalg.norm(ours, axis=1, keepdims=True)
    np.testing.assert_allclose(theirs / lengths, ours / lengths, atol=tolerance)


def test_the_exported_folder_needs_nothing_of_this_project(config: Config, tmp_path: Path) -> None:
    encoder = trained(tmp_path / "run", config, *DECODER)
    export(tmp_path / "run", tmp_path / "out", "sentence-transformers")
    script = (
        "import sys; sys.modules['sts_lightning'] = None\n"
        "from sentence_transformers import SentenceTransformer\n"
        f"model = SentenceTransformer({str(tmp_path / 'out')!r}, device='cpu', trust_remote_code=True)\n"
        "print(model.encode('A farmer .')[:4].tolist())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    printed = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(printed, encoder.encode(["A farmer ."])[0, :4], atol=1e-5)


def test_peft_reads_the_adapter(config: Config, tmp_path: Path) -> None:
    encoder = trained(tmp_path / "run", config, *DECODER)
    export(tmp_path / "run", tmp_path / "out", "adapter")
    base = tiny_mistral().backbone
    model = PeftModel.from_pretrained(base, tmp_path / "out").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    ids = tokenizer('This sentence : "x" means in one word:"', return_tensors="pt")
    theirs = model(**ids).last_hidden_state[0, -1].detach().numpy()
    np.testing.assert_allclose(theirs, encoder.encode(["x"])[0], atol=1e-5)
    with safe_open(tmp_path / "out" / "adapter_model.safetensors", "np") as weights:
        assert all("lora_" in name for name in weights.keys())  # noqa: SIM118 # not a mapping
    settings = json.loads((tmp_path / "out" / "sts_lightning.json").read_text())
    assert settings["template"] == 'This sentence : "{sentence}" means in one word:"'
    assert settings["pooling"] == "last_token"


def test_transformers_reads_the_merged_model(config: Config, tmp_path: Path) -> None:
    encoder = trained(tmp_path / "run", config, *DECODER, "model.quantization=4bit")
    export(tmp_path / "run", tmp_path / "out", "merged")
    model = AutoModel.from_pretrained(tmp_path / "out").eval()
    assert not hasattr(model.config, "quantization_config")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    ids = tokenizer('This sentence : "x" means in one word:"', return_tensors="pt")
    theirs = model(**ids).last_hidden_state[0, -1].detach().numpy()
    np.testing.assert_allclose(theirs, encoder.encode(["x"])[0], atol=1e-4)


def test_the_original_base_gives_other_vectors(config: Config, tmp_path: Path) -> None:
    encoder = trained(tmp_path / "run", config, *DECODER, "model.quantization=4bit")
    export(tmp_path / "run", tmp_path / "out", "sentence-transformers", "original")
    model = SentenceTransformer(str(tmp_path / "out"), device="cpu", trust_remote_code=True)
    assert abs(model.encode(["x"]) - encoder.encode(["x"])).max() > 1e-2


def test_what_has_no_form_is_refused(config: Config, tmp_path: Path) -> None:
    trained(tmp_path / "run", config, *DECODER, "model.bidirectional_layers=1", "prompt.layer=-2")
    with pytest.raises(ConfigError, match=r"no form for prompt.layer=-2, model.bidirectional_layers=1"):
        export(tmp_path / "run", tmp_path / "out", "sentence-transformers")
    assert not (tmp_path / "out").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    trained(tmp_path / "bert", config)
    with pytest.raises(CheckpointError, match="has no adapter; use --format merged"):
        export(tmp_path / "bert", tmp_path / "out", "adapter")
    with pytest.raises(CheckpointError, match="is not a run folder"):
        export(tmp_path / "none", tmp_path / "out", "adapter")
    (tmp_path / "out").mkdir()
    with pytest.raises(ConfigError, match="exists already"):
        export(tmp_path / "bert", tmp_path / "out", "merged")


def test_a_prefix_cannot_be_merged(config: Config, tmp_path: Path) -> None:
    prefix = "{_target_: peft.PrefixTuningConfig, task_type: FEATURE_EXTRACTION, num_virtual_tokens: 3}"
    trained(tmp_path / "run", config, f"model.adapter={prefix}")
    with pytest.raises(ConfigError, match="PREFIX_TUNING cannot be merged; use --format adapter"):
        export(tmp_path / "run", tmp_path / "out", "merged")
    export(tmp_path / "run", tmp_path / "adapter", "adapter")
    assert (tmp_path / "adapter" / "adapter_model.safetensors").is_file()
