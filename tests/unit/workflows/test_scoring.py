"""Scores at the end of a run."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from omegaconf import DictConfig
from scipy import stats

from sts_lightning.data.module import DataModule
from sts_lightning.evaluation.score import score_data, score_encoder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.toy import toy
from tests.support.data_modules import data_module

Config = Callable[..., DictConfig]


@pytest.fixture
def data() -> DataModule:
    data = data_module(toy, batch_size=8, seed=1, train_size=16, dev_size=40, test_size=30)
    data.setup()
    return data


def test_scores_are_scipys_on_the_encoders_vectors(data: DataModule, config: Config) -> None:
    encoder = tiny_bert().eval()
    found = score_data(encoder, data, config("evaluation.precision=32-true").evaluation)
    cosines = []
    for row in data.dev:
        first, second = encoder.encode([row["sentence1"], row["sentence2"]]).astype(float)
        cosines.append(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
    np.testing.assert_allclose(found.dev_found[0], cosines, atol=1e-5)
    gold = data.dev["label"][:]
    assert found.dev["spearman"] == pytest.approx(100 * stats.spearmanr(cosines, gold).statistic, abs=0.1)
    assert found.dev["pearson"] == pytest.approx(100 * stats.pearsonr(cosines, gold).statistic, abs=0.01)
    assert found.test is not None
    assert [len(cosines) for cosines, _ in found.test_found.values()] == [30]


def test_the_test_tasks_are_scored_only_if_asked_for(data: DataModule, config: Config) -> None:
    found = score_data(tiny_bert().eval(), data, config("evaluation.final=false").evaluation)
    assert found.test is None
    assert found.test_found == {}


def test_the_precision_is_that_of_the_evaluation(data: DataModule, config: Config) -> None:
    encoder = tiny_bert().eval()
    score_data(encoder, data, config("evaluation.precision=bf16-true", "evaluation.final=false").evaluation)
    assert encoder.precision == "bf16-true"


def test_a_report_may_have_every_column_of_an_evaluation(data: DataModule) -> None:
    """Of one encoding: dev and test scores, those of the first 8 values, and the ranks."""
    encoder, calls = tiny_bert().eval(), []
    encode = encoder.encode
    counted = SimpleNamespace(encode=lambda texts: calls.append(len(texts)) or encode(texts))
    found = score_encoder(counted, data.tests, dev=data.dev, rank=True, dims=[8])
    assert len(calls) == 1
    assert found.test is not None
    assert found.ranks is not None
    (table,) = (table for task in data.tests for table in task.subsets.values())
    first, second = (encode(table[name][:])[:, :8].astype(float) for name in ("sentence1", "sentence2"))
    cosines = (first * second).sum(axis=1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    expected = 100 * stats.spearmanr(cosines, table["label"][:]).statistic
    assert found.test["deployed"]["8 float32"]["scores"]["toy"] == pytest.approx(expected, abs=0.1)
