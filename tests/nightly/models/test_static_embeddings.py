from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sts_lightning
from sts_lightning.core.choices import ExportFormat
from sts_lightning.core.errors import ConfigError
from sts_lightning.export.export import export
from sts_lightning.models.architectures.static_embeddings import glove
from sts_lightning.workflows.command import train_in
from sts_lightning.workflows.evaluate import evaluate_in
from tests.conftest import SHORT_DATA
from tests.support.whole_runs import metrics
from tests.unit.models.test_static_embeddings import Config
from tests.unit.models.test_static_embeddings import path as path
from tests.unit.models.test_static_embeddings import static as static


def test_a_run_of_word_vectors_loads(config: Config, tmp_path: Path) -> None:
    """The vectors of words train as those of any model, and come back."""
    file = tmp_path / "toy.txt"
    words = ["the", "a", "boy", "girl", "farmer", "hid", "found", "rug", "in", "on", "."]
    generator = np.random.default_rng(0)
    file.write_text("".join(f"{word} {' '.join(map(str, generator.normal(size=8)))}\n" for word in words))
    run = tmp_path / "run"
    steps = ["trainer.max_epochs=-1", "trainer.max_steps=4", "trainer.val_every=2", "optim.lr=1e-2"]
    train_in(run, config("model=glove", f"model.path={file}", *SHORT_DATA, *steps))
    encoder = sts_lightning.load(run)
    texts = ["the boy hid a rug .", "a farmer ."]
    assert encoder.encode(texts).shape == (2, 8)
    assert not np.allclose(encoder.encode(texts), glove(str(file)).encode(texts), atol=1e-4)
    assert metrics(run)["test"]


@pytest.mark.parametrize("form", ["merged", "sentence-transformers"])
def test_an_export_that_nothing_could_load_is_rejected(
    form: ExportFormat, path: Path, config: Config, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    overrides = [*SHORT_DATA, "model=glove", f"model.path={path}", "trainer.max_steps=2"]
    train_in(run, config(*overrides, "evaluation.final=false"))
    with pytest.raises(ConfigError, match=r"an architecture that transformers lacks"):
        export(run, tmp_path / "out", form)
    assert not (tmp_path / "out").exists()


def test_static_embeddings_are_evaluated_and_teach(
    static: Path, config: Config, tmp_path: Path, data_root: str
) -> None:
    given = ["model=encoder", f"model.name={static}", "tasks=[STSB]", f"data_root={data_root}"]
    assert np.isfinite(evaluate_in(tmp_path / "out", config(*given, of="eval")))
    teacher = ["loss=similarity_distillation", "auxiliary=teacher", f"auxiliary.sources=[{static}]"]
    train_in(tmp_path / "run", config("model=tiny_bert", *SHORT_DATA, *teacher, "trainer.max_steps=2"))
    assert metrics(tmp_path / "run")["test"]
