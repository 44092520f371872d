"""Merged models against transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModel, AutoTokenizer

from sts_lightning.core.errors import ConfigError
from sts_lightning.export.export import export
from tests.support.exports import DECODER, Config, trained


def test_transformers_reads_the_merged_model(config: Config, tmp_path: Path) -> None:
    encoder = trained(tmp_path / "run", config, *DECODER, "model.quantization=4bit")
    export(tmp_path / "run", tmp_path / "out", "merged")
    model = AutoModel.from_pretrained(tmp_path / "out").eval()
    assert not hasattr(model.config, "quantization_config")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    ids = tokenizer('This sentence : "x" means in one word:"', return_tensors="pt")
    theirs = model(**ids).last_hidden_state[0, -1].detach().numpy()
    np.testing.assert_allclose(theirs, encoder.encode(["x"])[0], atol=1e-4)


def test_a_prefix_cannot_be_merged(config: Config, tmp_path: Path) -> None:
    prefix = "{_target_: peft.PrefixTuningConfig, task_type: FEATURE_EXTRACTION, num_virtual_tokens: 3}"
    trained(tmp_path / "run", config, f"model.adapter={prefix}")
    with pytest.raises(ConfigError, match=r"PREFIX_TUNING cannot be merged.*--format adapter"):
        export(tmp_path / "run", tmp_path / "out", "merged")
    export(tmp_path / "run", tmp_path / "adapter", "adapter")
    assert (tmp_path / "adapter" / "adapter_model.safetensors").is_file()


def test_dense_layers_that_are_left_out_are_said(
    config: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trained(tmp_path / "run", config, "model.projection=always")
    export(tmp_path / "run", tmp_path / "out", "merged")
    assert "without the dense layers" in caplog.text
