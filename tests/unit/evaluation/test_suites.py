"""Suites of tasks, from files to metrics."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import DictConfig
from scipy.stats import spearmanr

from sts_lightning.core.errors import ConfigError, DataError, UserError
from sts_lightning.evaluation.suites import UnitVectors, open_suite
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.papers.senteval_classifier import EarlyStopped
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.predictions import load_predictions
from sts_lightning.workflows.evaluate import evaluate_in

Config = Callable[..., DictConfig]

WORDS = ["one", "two dogs", "three red dogs", "four", "five cats", "six"] * 4


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root with STS-B, SICK and two probing tasks."""
    folder = tmp_path / "senteval"
    for name in ("STS/STSBenchmark", "SICK", "probing"):
        (folder / name).mkdir(parents=True)
    (folder / "counts.json").write_text("{}")
    for part in ("train", "dev", "test"):
        rows = [
            f"g\tf\ty\t{n}\t{n % 6 * 0.9:.1f}\ta man saw {w}\tthey saw {w} {n}" for n, w in enumerate(WORDS)
        ]
        (folder / "STS" / "STSBenchmark" / f"sts-{part}.csv").write_text("\n".join(rows))
    for part in ("train", "trial", "test_annotated"):
        rows = [f"{n}\tno {w}\tsome {w} {n}\t{1 + n % 5 * 0.9:.1f}\tNEUTRAL" for n, w in enumerate(WORDS)]
        (folder / "SICK" / f"SICK_{part}.txt").write_text("\n".join(["pair_ID\ta\tb\tr\te", *rows]))
    lines = []
    for index in range(60):
        part = ("tr", "tr", "tr", "va", "te")[index % 5]
        label, word = [("NN", "dog"), ("NNS", "dogs")][index // 5 % 2]
        lines.append(f"{part}\t{label}\tThe {word} ran away {index} times .")
    for file in ("subj_number", "obj_number"):
        (folder / "probing" / f"{file}.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def evaluated(config: Config, root: Path, *overrides: str) -> dict[str, Any]:
    """The metrics of a small model."""
    run = root / "run"
    average = evaluate_in(run, config("model=tiny_bert", f"data_root={root}", *overrides, of="eval"))
    metrics: dict[str, Any] = json.loads((run / "metrics.json").read_text())
    assert metrics["test"]["average"] == average
    return metrics


@pytest.mark.parametrize("classifier", ["sklearn", "pytorch"])
def test_probing(
    classifier: str,
    config: Config,
    root: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fits = []
    fit = EarlyStopped.fit
    monkeypatch.setattr(EarlyStopped, "fit", lambda self, *args: fits.append(args) or fit(self, *args))
    metrics = evaluated(
        config, root, "suite=probing", "tasks=[SubjNumber,ObjNumber]", f"classifier={classifier}"
    )
    title = f"Accuracy x 100 (logistic regression, classifier={classifier}"
    assert title in " ".join(capsys.readouterr().out.split())
    assert metrics["suite"] == "probing"
    assert metrics["test"]["classifier"] == classifier
    assert len(fits) == (2 if classifier == "pytorch" else 0)
    tasks = metrics["test"]["tasks"]
    assert list(tasks) == ["SubjNumber", "ObjNumber"]
    assert metrics["test"]["average"] == pytest.approx(sum(task["score"] for task in tasks.values()) / 2)


def test_sts_leaves_its_predictions(config: Config, root: Path) -> None:
    test = evaluated(config, root, "tasks=[STSB]")["test"]
    tasks = test["tasks"]
    assert "deployed" not in test
    with np.load(root / "run" / "predictions.npz") as arrays:
        assert sorted(arrays.files) == ["STSB/cosine", "STSB/gold", "STSB/pairs"]
        assert len(arrays["STSB/gold"]) == tasks["STSB"]["pairs"] == 24


def test_sizes_and_types_of_one_encoding(
    config: Config, root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    encode = SentenceEncoder.encode
    monkeypatch.setattr(SentenceEncoder, "encode", lambda *args: calls.append(args) or encode(*args))
    metrics = evaluated(config, root, "tasks=[STSB,SICKR]", "dims=[8]", "vectors=[int8,binary]")
    assert len(calls) == 1
    deployed = metrics["test"]["deployed"]
    sizes = {"32 float32": 128, "32 int8": 32, "32 binary": 4, "8 int8": 8, "8 binary": 1}
    assert {name: found["bytes"] for name, found in deployed.items()} == sizes
    assert deployed["32 float32"]["scores"] == {
        **{name: task["spearman"] for name, task in metrics["test"]["tasks"].items()},
        "average": metrics["test"]["average"],
    }
    printed = capsys.readouterr().out
    assert [printed.count(f"{name} ({size} B)") for name, size in sizes.items()] == [1] * 5
    assert RunFolder(root / "run").metrics().score == metrics["test"]["average"]


def test_a_size_that_no_vector_has(config: Config, root: Path) -> None:
    with pytest.raises(ConfigError, match=r"dims=\[8, 33\]: a vector has 32 values") as caught:
        evaluated(config, root, "tasks=[STSB]", "dims=[8,33]")
    assert caught.value.key == "dims"
    assert not (root / "run" / "predictions.npz").exists()


@pytest.mark.parametrize(
    ("overrides", "error", "message"),
    [
        (["suite=transfer"], DataError, "no MR data here"),
        (["suite=probing", "tasks=[SubjNumber]", "folds=1"], ConfigError, "folds must be at least 2, got 1"),
        (["suite=mteb"], ConfigError, "suite=mteb needs tasks="),
    ],
)
def test_mistakes(
    overrides: list[str], error: type[Exception], message: str, config: Config, root: Path
) -> None:
    with pytest.raises(error, match=message):
        open_suite(config("model=tiny_bert", f"data_root={root}", *overrides, of="eval"))


def test_unit_vectors_keep_their_direction() -> None:
    class Fixed:
        def encode(self, sentences: Any, /) -> np.ndarray:
            return np.array([[3.0, 4.0], [0.0, 0.0]])[: len(sentences)]

    np.testing.assert_allclose(UnitVectors(Fixed()).encode(["a", "b"]), [[0.6, 0.8], [0, 0]], rtol=1e-6)


def test_own_files(config: Config, tmp_path: Path) -> None:
    rows = [f"{word},{word[::-1]} {n},{n % 7}" for n, word in enumerate(WORDS)]
    for name in ("mine", "other"):
        (tmp_path / f"{name}.csv").write_text("\n".join(["q,a,r", *rows]) + "\n")
    test = f"test=[{tmp_path}/mine.csv,{tmp_path}/other.csv]"
    columns = ("sentence1=q", "sentence2=a", "score=r", "score_range=[0,6]")
    metrics = evaluated(config, tmp_path / "absent", test, *columns)
    predictions = load_predictions(RunFolder(tmp_path / "absent" / "run"))
    gold = [n % 7 for n in range(len(WORDS))]
    expected = 100 * spearmanr(predictions["mine"][0], gold).statistic
    assert metrics["test"]["tasks"]["mine"]["spearman"] == pytest.approx(expected)
    assert metrics["test"]["tasks"]["mine"] == metrics["test"]["tasks"]["other"]
    assert metrics["senteval_text"] is None


def test_an_own_file_with_the_name_of_a_task(config: Config, root: Path, tmp_path: Path) -> None:
    rows = [f"{word},{word[::-1]} {n},{n % 5}" for n, word in enumerate(WORDS)]
    (tmp_path / "STSB.csv").write_text("\n".join(["sentence1,sentence2,score", *rows]) + "\n")
    overrides = [f"data_root={root}", f"test={tmp_path}/STSB.csv", "tasks=[STSB]"]
    with pytest.raises(ConfigError, match="STSB would be the name of one of your test files and of a task"):
        open_suite(config("model=tiny_bert", *overrides, of="eval"))


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["test=mine.csv", "suite=transfer"], "test"),
        (["test=mine.csv", "score_range=[5,1]"], "score_range"),
    ],
)
def test_settings_of_own_files_are_checked(config: Config, overrides: list[str], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_suite(config("model=tiny_bert", *overrides, of="eval"))
    assert caught.value.key == key


def test_ranks_beside_the_scores(config: Config, root: Path) -> None:
    scores = evaluated(config, root, "tasks=[STSB,SICKR]", "rank=true")
    assert "spearman" in scores["test"]["tasks"]["STSB"]
    assert RunFolder(root / "run").metrics().scores["rank"] == scores["rank"]["average"]
    (root / "run").rename(root / "both")
    ranks = evaluated(config, root, "tasks=[STSB,SICKR]", "suite=rank")["test"]
    assert scores["rank"] == {key: ranks[key] for key in scores["rank"]}


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["tasks=[STS99]"], "tasks"),
        (["suite=rank", "tasks=[STS99]"], "tasks"),
        (["suite=transfer", "tasks=[STS99]"], "tasks"),
        (["suite=probing", "tasks=[STS99]"], "tasks"),
        (["data_root=nowhere"], "data_root"),
        (["suite=transfer", "data_root=nowhere"], "data_root"),
        (["test=nowhere.csv"], "test"),
        (["test=mine.txt"], "test"),
        (["folds=-1", "suite=probing", "tasks=[SubjNumber]"], "folds"),
        (["suite=rank", "dims=[8]"], "dims"),
        (["suite=transfer", "rank=true"], "rank"),
        (["suite=probing", "vectors=[int8]"], "vectors"),
    ],
)
def test_errors_name_the_setting(config: Config, root: Path, overrides: list[str], key: str) -> None:
    with pytest.raises(UserError) as caught:
        open_suite(config("model=tiny_bert", f"data_root={root}", *overrides, of="eval"))
    assert caught.value.key == key
