"""Exports against sentence-transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from sts_lightning.export.export import export
from sts_lightning.export.sentence_transformers import write_sentence_transformers
from sts_lightning.testing.tiny_decoders import tiny_llama
from tests.support.exports import DECODER, TEXTS, Config, trained

CASES = {
    "bert": ([], 1e-5),
    "bert, template": (["prompt=eol", "prompt.pooling=mean"], 1e-5),
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
    code = (tmp_path / "out" / "template_transformer.py").is_file()
    assert code == (case in ("bert, mask", "decoder, edited"))
    model = SentenceTransformer(str(tmp_path / "out"), device="cpu", trust_remote_code=code)
    ours = encoder.encode(TEXTS)
    theirs = model.encode(TEXTS, convert_to_tensor=True).float().numpy()
    lengths = np.linalg.norm(ours, axis=1, keepdims=True)
    np.testing.assert_allclose(theirs / lengths, ours / lengths, atol=tolerance)


@pytest.mark.parametrize("template", [None, 'This sentence : "{sentence}" means'])
def test_the_chat_template_of_an_instructed_model_stays_out(template: str | None, tmp_path: Path) -> None:
    encoder = tiny_llama(pooling="last_token", template=template)
    encoder.tokenizer.tokenizer.chat_template = "{% for m in messages %}user: {{ m['content'] }}{% endfor %}"
    ours = encoder.encode(TEXTS)
    (tmp_path / "out").mkdir()
    write_sentence_transformers(encoder, tmp_path / "out")
    model = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    np.testing.assert_allclose(model.encode(TEXTS), ours, atol=1e-5)
