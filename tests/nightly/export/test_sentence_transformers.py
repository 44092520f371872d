"""Exports against sentence-transformers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from sts_lightning.export.export import export
from tests.support.exports import DECODER, TEXTS, Config, trained

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


def test_the_original_base_gives_other_vectors(config: Config, tmp_path: Path) -> None:
    encoder = trained(tmp_path / "run", config, *DECODER, "model.quantization=4bit")
    export(tmp_path / "run", tmp_path / "out", "sentence-transformers", "original")
    model = SentenceTransformer(str(tmp_path / "out"), device="cpu", trust_remote_code=True)
    assert abs(model.encode(["x"]) - encoder.encode(["x"])).max() > 1e-2
