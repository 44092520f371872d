"""Graphs against the encoder, in onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor

from sts_lightning.core.errors import CheckpointError
from sts_lightning.export import onnx
from sts_lightning.export.check import check, expect
from sts_lightning.export.export import FORMATS
from sts_lightning.export.onnx import write_onnx
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.tiny_decoders import tiny_llama, tiny_mistral, tiny_opt
from tests.support.exports import TEXTS
from tests.support.sentences import DOCUMENTS, QUERIES

EOL = 'it : "{sentence}" is'
CASES: dict[str, tuple[Callable[..., SentenceEncoder], dict[str, Any]]] = {
    "normalised, dense layers": (tiny_bert, {"template": EOL, "normalize": True, "projection": "always"}),
    "cut rows, first values": (tiny_bert, {"max_length": 9, "pooling": "cls", "truncate_dim": 5}),
    "mask before": (tiny_bert, {"template": "{mask} : {sentence}", "pooling": "mask_token"}),
    "mask after": (tiny_bert, {"template": "{sentence} is {mask} .", "pooling": "mask_token"}),
    "two layers": (tiny_bert, {"pooling": "first_last_mean"}),
    "inner layer": (tiny_bert, {"layer": -2}),
    "causal": (tiny_llama, {"template": EOL, "pooling": "last_token"}),
    "numbered positions": (tiny_opt, {"template": EOL, "pooling": "last_token"}),
    "bidirectional, dequantised": (tiny_mistral, {"bidirectional_layers": 1, "quantization": "4bit"}),
}


@pytest.mark.parametrize("case", list(CASES))
def test_the_graph_gives_the_same_vectors(case: str, tmp_path: Path) -> None:
    make, settings = CASES[case]
    encoder = make(**settings)
    texts = [*TEXTS, "a [MASK] b"]
    ours = encoder.encode(texts)
    write_onnx(encoder, tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    for start, stop in ((0, None), (1, 2)):
        rows = tokenizer.encode_batch(texts[start:stop])
        ids, mask = np.array([row.ids for row in rows]), np.array([row.attention_mask for row in rows])
        theirs = session.run(["sentence_embedding"], {"input_ids": ids, "attention_mask": mask})[0]
        np.testing.assert_allclose(theirs, ours[start:stop], atol=1e-4)


def test_weights_beside_a_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx, "LARGEST", 0)
    write_onnx(tiny_bert(), tmp_path)
    assert (tmp_path / "model.onnx.data").is_file()


def test_another_vector_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unmasked(graph: onnx.Graph, ids: Tensor, mask: Tensor) -> Tensor:
        return graph.encoder.embed_chunk({"input_ids": ids, "attention_mask": torch.ones_like(mask)})

    monkeypatch.setattr(onnx.Graph, "forward", unmasked)
    encoder = tiny_bert()
    expected = expect(encoder, QUERIES, DOCUMENTS, bare=False)
    write_onnx(encoder, tmp_path)
    with pytest.raises(CheckpointError, match="in onnxruntime are not those of the run"):
        check(tmp_path, FORMATS["onnx"], encoder.config, expected)
