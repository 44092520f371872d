"""SentEval's layout, on small generated files."""

from __future__ import annotations

from pathlib import Path

from sts_lightning.data.sts_train import sts_train
from tests.support.data_modules import data_module


def test_the_corpus_is_the_same_in_both_texts(root: Path) -> None:
    corpora = [
        data_module(sts_train, str(root), batch_size=2, seed=0, senteval_text=text)
        for text in ("raw", "prepared")
    ]
    for data in corpora:
        data.setup()
    raw, prepared = (data.train.columns for data in corpora)
    assert prepared["label"] == raw["label"]
    assert "a CAT" in raw["sentence1"] and "a cat" in prepared["sentence1"]
    assert [data.text for data in corpora] == ["raw", "prepared"]
