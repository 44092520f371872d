"""Every example runs, and a step in sentence-transformers is a step here."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from omegaconf import DictConfig
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)

import sts_lightning
from sts_lightning.losses import PearsonLoss, for_sentence_transformers
from sts_lightning.models.loading.hub import packaged_copy
from sts_lightning.regularizers.rank_reduction import RankReduction
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.toy import toy
from tests.conftest import ROOT
from tests.support.whole_runs import weights

EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.stem != "paper_figures")

PRINTED = {
    "loss_in_lightning": "vectors of shape (2, 32)",
    "loss_in_pytorch": " 640 pairs, loss ",
    "loss_in_sentence_transformers": "after training",
    "own_loss": "'delta': 0.3}: dev Spearman",
    "own_pairs": "cosine ",
}
"""Part of the last line of each example."""


def test_the_examples_are_five_short_ones() -> None:
    assert {path.stem for path in EXAMPLES} == set(PRINTED)
    assert max(len(path.read_text().splitlines()) for path in EXAMPLES) <= 60


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    model = "tiny_bert"
    if example.stem.startswith("loss_in_"):  # a folder of transformers
        encoder, model = tiny_bert(), str(tmp_path / "tiny")
        encoder.plain_backbone.save_pretrained(model)
        encoder.tokenizer.tokenizer.save_pretrained(model)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(example), model])
    runpy.run_path(str(example), run_name="__main__")
    assert PRINTED[example.stem] in capfd.readouterr().out.strip().splitlines()[-1]


def test_a_step_in_sentence_transformers_is_a_step_here(
    tmp_path: Path, config: Callable[..., DictConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pearson's loss and rank reduction on MiniLM; AdamW with an eps that bears rounding."""
    copy = packaged_copy(*config().model.name.split("@"))
    if copy is None:
        pytest.skip("needs the extra `offline`")
    monkeypatch.chdir(tmp_path)
    pairs = Dataset.from_dict({**toy(train_size=20).read().train.columns})
    train, dev = pairs.select(range(16)), pairs.select(range(16, 20))
    train.to_csv("train.csv")
    dev.to_csv("dev.csv")
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    data = {"columns": ["sentence1", "sentence2", "label"], "dev_path": "dev.csv", "batch_size": 16}
    settings: dict[str, Any] = {f"data.{key}": value for key, value in data.items()}
    settings |= {f"+model.config.{key}": value for key, value in dropout.items()}
    settings |= {"data.score_range": [0, 5], "trainer.max_steps": 1, "evaluation.final": False}
    settings |= {"optim.lr": 1e-3, "optim.eps": 1e-3, "optim.warmup": 0}
    run = sts_lightning.train(
        data="train.csv", regularizer="rank_reduction", precision="32-true", folder="ours", settings=settings
    )
    prefix = "encoder.backbone."
    ours = {name.removeprefix(prefix): value for name, value in weights(run.path, "final").items()}

    model = SentenceTransformer(str(copy), device="cpu", config_kwargs=dropout)
    start = {name: value.clone() for name, value in model[0].auto_model.state_dict().items()}
    step(model, train.rename_column("label", "score"))
    theirs = model[0].auto_model.state_dict()
    assert set(ours) == {name for name in theirs if not name.startswith("pooler.")}
    assert max((theirs[name] - value).abs().max() for name, value in ours.items()) < 1e-6
    assert max((theirs[name] - start[name]).abs().max() for name in ours) > 1e-4


def step(model: SentenceTransformer, pairs: Dataset) -> None:
    """Take one step on all pairs in the trainer of sentence-transformers."""
    loss = for_sentence_transformers(
        model, PearsonLoss(), RankReduction(), score_range=(0, 5), mini_batch_size=8
    )
    arguments = SentenceTransformerTrainingArguments(
        output_dir="theirs",
        max_steps=1,
        per_device_train_batch_size=len(pairs),
        learning_rate=1e-3,
        adam_epsilon=1e-3,
        weight_decay=0.01,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    SentenceTransformerTrainer(model=model, args=arguments, train_dataset=pairs, loss=loss).train()
