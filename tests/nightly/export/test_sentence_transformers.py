"""Exports against sentence-transformers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from sts_lightning.core.errors import ConfigError
from sts_lightning.export.export import export
from sts_lightning.testing.tiny_decoders import tiny_mistral
from tests.support.exports import DECODER, Config, trained


def test_the_exported_code_needs_nothing_of_this_project(config: Config, tmp_path: Path) -> None:
    encoder = trained(tmp_path / "run", config, *DECODER, "evaluation.text_edit=prompt_bert")
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


def test_the_original_base_gives_other_vectors(config: Config, tmp_path: Path) -> None:
    unnamed, base = tiny_mistral(hidden_size=64), tmp_path / "base"
    unnamed.plain_backbone.save_pretrained(base)
    unnamed.tokenizer.tokenizer.save_pretrained(base)
    named = ["model=mistral7b", f"model.name={base}", "prompt=eol", "model.dtype=float32", "trainer=cpu"]
    encoder = trained(tmp_path / "run", config, *named)
    export(tmp_path / "run", tmp_path / "out", "sentence-transformers", "original")
    model = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert abs(model.encode(["x"]) - encoder.encode(["x"])).max() > 1e-2
    trained(tmp_path / "quantised", config, *DECODER, "model.quantization=4bit")
    with pytest.raises(ConfigError, match="has no name of a base"):
        export(tmp_path / "quantised", tmp_path / "again", "merged", "original")
