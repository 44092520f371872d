"""What no graph can hold."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sts_lightning.core.errors import ConfigError
from sts_lightning.export.onnx import write_onnx
from sts_lightning.testing.tiny_bert import tiny_bert


def test_a_library_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match=r"pip install 'sts-lightning\[onnx\]'"):
        write_onnx(tiny_bert(), tmp_path)


def test_an_edit_and_a_template_that_the_tokenizer_cannot_hold(tmp_path: Path) -> None:
    encoder = tiny_bert(template="say{sentence}")
    with pytest.raises(ConfigError, match="use --format sentence-transformers"):
        write_onnx(encoder, tmp_path)
    encoder.set_evaluation("official")
    with pytest.raises(ConfigError, match="cannot hold text_edit=official"):
        write_onnx(encoder, tmp_path)
