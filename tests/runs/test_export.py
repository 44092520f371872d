"""The command `sts-lightning export`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelCard

from sts_lightning.cli.main import main
from tests.support.exports import Config, trained


def test_the_command(config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained(tmp_path / "run", config)
    out = str(tmp_path / "out")
    main(["export", str(tmp_path / "run"), out, "--license", "apache-2.0"])
    assert (tmp_path / "out" / "modules.json").is_file()
    card = ModelCard.load(tmp_path / "out" / "README.md")
    assert (card.data.license, card.data.library_name) == ("apache-2.0", "sentence-transformers")
    assert 'SentenceTransformer("out")' in card.text
    with pytest.raises(SystemExit, match=r"error: .*out exists already; choose another folder\."):
        main(["export", str(tmp_path / "run"), out])
    shutil.rmtree(out)
    with pytest.raises(SystemExit) as leaving:
        main(["export", str(tmp_path / "run"), out, "--format", "gguf"])
    assert leaving.value.code == 2
    assert "'gguf' is not one of " in capsys.readouterr().err


WITHOUT = "import sys\nfor name in {!r}: sys.modules[name] = None\n"
SENTENCES = ["A man plays a guitar.", "Someone makes music."]
LIBRARIES = {"sentence-transformers": ["sts_lightning"], "onnx": ["sts_lightning", "torch", "transformers"]}
"""What is not installed where an export of each format is used."""


def said(example: str, missing: list[str], folder: Path) -> list[list[float]]:
    """Run an example where some packages are missing, and return its vectors."""
    script = f"{WITHOUT.format(missing)}{example}print(vectors.tolist())"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True
    )
    vectors: list[list[float]] = json.loads(done.stdout.splitlines()[-1])
    return vectors


def test_a_template_in_libraries_that_know_nothing_of_it(config: Config, tmp_path: Path) -> None:
    """The example of the card gives the run's cosines, and so does its model folder; no code is trusted."""
    encoder = trained(tmp_path / "run", config, "prompt=eol", "prompt.pooling=mean")
    vectors = encoder.encode(SENTENCES, normalize=True)
    of_run = f"""
from sentence_transformers import SentenceTransformer
vectors = SentenceTransformer("run/model").encode({SENTENCES}, normalize_embeddings=True)
"""
    np.testing.assert_allclose(said(of_run, ["sts_lightning"], tmp_path), vectors, atol=1e-5)
    for format_, missing in LIBRARIES.items():
        out = tmp_path / format_
        main(["export", str(tmp_path / "run"), str(out), "--format", format_])
        (example,) = re.findall("```python\n(.*?)```", (out / "README.md").read_text("utf-8"), re.DOTALL)
        assert "trust_remote_code" not in example
        if format_ == "sentence-transformers":
            example += f"vectors = model.encode({SENTENCES}, normalize_embeddings=True)\n"
        theirs = said(example, missing, tmp_path)
        np.testing.assert_allclose(theirs, vectors, atol=1e-5 if format_ != "onnx" else 1e-4)
