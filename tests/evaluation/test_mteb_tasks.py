"""MTEB's own scoring of tasks whose data are local."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset, DatasetDict
from omegaconf import DictConfig

from sts_lightning.errors import ConfigError, DataError
from sts_lightning.evaluate import evaluate_in
from sts_lightning.evaluation import suites
from sts_lightning.evaluation.mteb_tasks import MTEBEncoder, evaluate_mteb, find_mteb_tasks
from sts_lightning.models.tiny_bert import tiny_bert

mteb = pytest.importorskip("mteb")


def with_rows(name: str, data: DatasetDict) -> Any:
    """MTEB's task with local rows in place of the hub's."""
    (task,) = find_mteb_tasks([name])
    task.dataset = data
    task.data_loaded = True
    return task


def similarity_task() -> Any:
    rows = {
        "sentence1": ["A dog runs", "Two men talk", "x y z", "It rains", "It rains"],
        "sentence2": ["A dog runs", "Men are talking", "abc", "It snows", "Go home"],
        "score": [5.0, 4.0, 0.5, 3.0, 1.0],
    }
    return with_rows("STS12", DatasetDict(test=Dataset.from_dict(rows)))


def test_vectors_are_the_encoders_own(tmp_path: Path) -> None:
    """MTEB's STS score equals scipy's on the cosines of the encoder, template applied."""
    from scipy import stats

    encoder = tiny_bert(template="This : {sentence} !").eval()
    task = similarity_task()
    result = evaluate_mteb(encoder, [task], tmp_path / "mteb")
    rows = task.dataset["test"]
    first, second = (encoder.encode(list(rows[column])) for column in ("sentence1", "sentence2"))
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(first, second, strict=True)]
    wanted = 100 * stats.spearmanr(cosines, rows["score"]).statistic
    assert result["tasks"]["STS12"]["score"] == pytest.approx(wanted)
    assert result["average"] == pytest.approx(wanted)
    saved = json.loads((tmp_path / "mteb" / "STS12.json").read_text())
    assert saved["task_name"] == "STS12"


def test_similarities_are_cosines() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    model = MTEBEncoder(tiny_bert())
    wanted = [[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in second] for a in first]
    np.testing.assert_allclose(model.similarity(first, second), wanted, rtol=1e-9)
    np.testing.assert_allclose(model.similarity_pairwise(first, second), np.diag(wanted), rtol=1e-9)


def test_unknown_tasks_and_absent_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"Banking77Classificatio"):
        find_mteb_tasks(["Banking77Classificatio"])
    (task,) = find_mteb_tasks(["STS12"])

    def unreachable(**_: Any) -> None:
        raise ConnectionError("no route to the hub")

    monkeypatch.setattr(task, "load_data", unreachable)
    with pytest.raises(DataError, match=r"MTEB's STS12 could not be loaded \(ConnectionError: no route"):
        evaluate_mteb(tiny_bert(), [task], tmp_path)


def test_through_eval(
    config: Callable[..., DictConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suites, "find_mteb_tasks", lambda names: [similarity_task()])
    cfg = config("suite=mteb", "tasks=[STS12]", "model=tiny_bert", of="eval")
    average = evaluate_in(tmp_path / "run", cfg)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["test"]["average"] == average
    assert (tmp_path / "run" / "mteb" / "STS12.json").is_file()
    with pytest.raises(ConfigError, match=r"suite=mteb needs tasks=\[...\]"):
        evaluate_in(tmp_path / "none", config("suite=mteb", "model=tiny_bert", of="eval"))
