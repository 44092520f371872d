from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sts_lightning.core.errors import ConfigError
from sts_lightning.workflows.evaluate import evaluate_in
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_DATA
from tests.support.whole_runs import metrics
from tests.unit.models.test_static_embeddings import static as static
from tests.unit.papers.test_glove import Config
from tests.unit.papers.test_glove import path as path


def test_word_vectors_are_not_trained(path: Path, config: Config, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="which no model folder can say"):
        train_in(tmp_path / "run", config(*SHORT_DATA, "model=glove", f"model.path={path}"))


def test_static_embeddings_are_evaluated_and_teach(
    static: Path, config: Config, tmp_path: Path, data_root: str
) -> None:
    given = ["model=encoder", f"model.name={static}", "tasks=[STSB]", f"data_root={data_root}"]
    assert np.isfinite(evaluate_in(tmp_path / "out", config(*given, of="eval")))
    teacher = ["loss=similarity_distillation", "auxiliary=teacher", f"auxiliary.sources=[{static}]"]
    train_in(tmp_path / "run", config("model=tiny_bert", *SHORT_DATA, *teacher, "trainer.max_steps=2"))
    assert metrics(tmp_path / "run")["test"]
