"""MTEB's own scoring of tasks whose data are local."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset, DatasetDict
from omegaconf import DictConfig

from sts_lightning.core.errors import ConfigError, DataError
from sts_lightning.evaluation import suites
from sts_lightning.evaluation.mteb import MTEBEncoder, evaluate_mteb, find_mteb_tasks
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.workflows.evaluate import evaluate_in

# Not imported here: that takes seconds, in every process that collects the tests.
pytestmark = [
    pytest.mark.skipif(find_spec("mteb") is None, reason="needs the extra mteb"),
]


def with_rows(name: str, data: Any, subsets: list[str] | None = None) -> Any:
    """MTEB's task with local rows in place of the hub's."""
    (task,) = find_mteb_tasks([name])
    task.hf_subsets = subsets or task.hf_subsets
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


def pairs_task(name: str, steps: dict[str, int], subsets: list[str] | None = None) -> Any:
    """A task whose subsets have gold scores in an order of their own, so that each has another result."""
    texts = ["A dog runs", "Two men talk", "x y z", "It rains", "Go home", "Some cats"]
    rows = {
        subset: DatasetDict(
            test=Dataset.from_dict(
                {
                    "sentence1": texts,
                    "sentence2": [text[::-1] for text in texts],
                    "score": [float((row * step) % 7 % 5) for row in range(1, 7)],
                }
            )
        )
        for subset, step in steps.items()
    }
    return with_rows(name, rows, subsets)


STS17 = {"en-en": 1, "en-de": 3, "es-es": 5}


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("STS17", ["en-en"]),
        ("STS12", ["default"]),
        ("STSBenchmarkMultilingualSTS", ["en"]),
        ("GermanSTSBenchmark", ["default"]),
    ],
)
def test_which_subsets_are_scored(name: str, kept: list[str]) -> None:
    (task,) = find_mteb_tasks([name])
    assert sorted(task.hf_subsets) == kept


def test_the_score_is_that_of_the_subsets_that_are_named(tmp_path: Path) -> None:
    """STS17 is English-English; the score of several subsets is their mean, and each is stated."""
    from scipy import stats

    encoder = tiny_bert().eval()

    def spearman(task: Any, subset: str) -> float:
        rows = task.dataset[subset]["test"]
        first, second = (encoder.encode(list(rows[column])) for column in ("sentence1", "sentence2"))
        cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(first, second, strict=True)]
        return 100 * float(stats.spearmanr(cosines, rows["score"]).statistic)

    task = pairs_task("STS17", STS17)
    result = evaluate_mteb(encoder, [task], tmp_path)["tasks"]["STS17"]
    assert result["score"] == pytest.approx(spearman(task, "en-en"))
    assert result["splits"] == {"test": {"en-en": pytest.approx(spearman(task, "en-en"))}}

    task = pairs_task("STS17", STS17, subsets=["en-de", "es-es"])
    result = evaluate_mteb(encoder, [task], tmp_path)["tasks"]["STS17"]
    wanted = {subset: spearman(task, subset) for subset in ("en-de", "es-es")}
    assert result["splits"] == {"test": pytest.approx(wanted)}
    assert result["score"] == pytest.approx(np.mean(list(wanted.values())))
    assert wanted["en-de"] != pytest.approx(wanted["es-es"])


def test_a_benchmark_is_its_tasks_as_mteb_defines_them() -> None:
    import mteb

    benchmark = mteb.get_benchmark("MTEB(eng, v2)")
    tasks = find_mteb_tasks(["MTEB(eng, v2)"])
    found = {task.metadata.name: (task.hf_subsets, task.eval_splits) for task in tasks}
    assert found == {task.metadata.name: (task.hf_subsets, task.eval_splits) for task in benchmark.tasks}
    assert len(found) == 41  # as published: arXiv 2502.13595, Section 3


def test_the_tasks_of_one_type() -> None:
    tasks = find_mteb_tasks(["STS12", "MTEB(eng, v2)/STS"])
    names = [task.metadata.name for task in tasks]
    assert names[0] == "STS12"
    assert sorted(names) == [
        *("BIOSSES", "SICK-R", "STS12", "STS13", "STS14", "STS15", "STS17", "STS22.v2", "STSBenchmark")
    ]
    with pytest.raises(ConfigError) as caught:
        find_mteb_tasks(["MTEB(eng, v2)/Similarity"])
    assert caught.value.key == "tasks"
    assert "Summarization" in str(caught.value)


def test_means_by_type(tmp_path: Path) -> None:
    first, second = similarity_task(), pairs_task("STS17", STS17, subsets=["en-de"])
    result = evaluate_mteb(tiny_bert(), [first, second], tmp_path)
    scores = [task["score"] for task in result["tasks"].values()]
    assert result["types"] == {"STS": pytest.approx(np.mean(scores))}
    assert len(scores) == 2


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
    monkeypatch.setattr(suites, "find_mteb_tasks", lambda names, **_: [similarity_task()])
    cfg = config("suite=mteb", "tasks=[STS12]", "model=tiny_bert", of="eval")
    average = evaluate_in(tmp_path / "run", cfg)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["test"]["average"] == average
    assert metrics["test"]["tasks"]["STS12"]["splits"] == {"test": {"default": average}}
    assert (tmp_path / "run" / "mteb" / "STS12.json").is_file()
    with pytest.raises(ConfigError, match=r"suite=mteb needs tasks=\[...\]"):
        evaluate_in(tmp_path / "none", config("suite=mteb", "model=tiny_bert", of="eval"))


def test_subsets_are_named_in_the_terminal(tmp_path: Path) -> None:
    task = pairs_task("STS17", STS17, subsets=["en-de", "es-es"])
    result = evaluate_mteb(tiny_bert(), [task], tmp_path)["tasks"]["STS17"]
    assert suites._label("STS17", result) == "STS17 (en-de, es-es)"
    assert suites._label("STS12", {**result, "splits": {"test": {"default": 1.0}}}) == "STS12"
