"""Dev sentences of training and of the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import DictConfig

import sts_lightning
from sts_lightning.core.errors import ConfigError
from sts_lightning.evaluation.statistics import correlate
from sts_lightning.evaluation.sts import encode_pairs
from sts_lightning.runs.folder import RunFolder
from sts_lightning.testing.toy import toy
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_RUN

Config = Callable[..., DictConfig]

SHORT = [
    *SHORT_RUN,
    "data.batch_size=16",
    "logger=csv",
    "trainer.max_epochs=1",
    "trainer.val_every=4",
    "data.dev_size=200",
]
EDITED = ["model.max_length=12", "evaluation.text_edit=official"]


def trained(run: Path, config: Config, *overrides: str) -> tuple[dict[str, Any], dict[float, float]]:
    """Metrics of a short run, and the dev score of each evaluation in training by its step."""
    train_in(run, config(*SHORT, *overrides))
    history = RunFolder(run).history()
    dev = {row["step"]: row["dev/spearman"] for row in history if "dev/spearman" in row}
    return json.loads((run / "metrics.json").read_text()), dev


@pytest.mark.parametrize(("length", "expected"), [("null", 512), ("12", 12)])
def test_weights_are_selected_by_dev_sentences_read_like_the_reported_ones(
    length: str, expected: int, config: Config, tmp_path: Path
) -> None:
    metrics, dev = trained(tmp_path / "run", config, *EDITED, f"evaluation.max_length={length}")
    read = metrics["dev"]["spearman"]
    assert read == pytest.approx(dev[metrics["best_step"]], abs=0.5)  # but for ties that rounding breaks
    assert (metrics["text_edit"], metrics["max_length"]) == ("official", expected)
    assert (metrics["precision"], metrics["quantization"]) == ("32-true", "none")
    assert metrics["training"] == {"max_length": 12, "precision": "32-true", "quantization": "none"}
    assert metrics["senteval_text"] is None  # the generated corpus is not SentEval's
    encoder = sts_lightning.load(tmp_path / "run")
    assert encoder.evaluation_text == {"text_edit": "official", "max_length": expected}
    encoder.set_evaluation(max_length=12)
    table = toy(train_size=256, dev_size=200, test_size=40).read().dev
    cut = correlate(encode_pairs(encoder, [table])[0], np.asarray(table["label"]))["spearman"]
    assert (abs(cut - read) < 0.5) == (expected == 12)


def test_a_length_without_positions_is_named_before_anything_is_written(
    config: Config, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        train_in(tmp_path / "run", config(*SHORT, "evaluation.max_length=600"))
    assert caught.value.key == "evaluation.max_length"
    assert not (tmp_path / "run" / "config.yaml").exists()
