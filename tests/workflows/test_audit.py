"""Where the audited similarities come from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sts_lightning.data.leaked_rows import LeakedRows, find_leaked_rows
from sts_lightning.data.pair_tables import make_table
from sts_lightning.data.readers.senteval import STSTask
from sts_lightning.errors import CheckpointError, DataError
from sts_lightning.evaluation.correlation import pair_cosines
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.predictions import save_predictions
from sts_lightning.workflows import audit as workflow
from sts_lightning.workflows.audit import audit_model, read_similarities


def pairs(count: int, start: int) -> dict[str, list[str]]:
    return {
        "sentence1": [f"sentence number {start + row} of some length" for row in range(count)],
        "sentence2": [f"another {start + row % 3} of them" for row in range(count)],
    }


RNG = np.random.default_rng(0)
TASKS = [
    STSTask(
        "one",
        {
            "x": make_table({**pairs(30, 0), "label": (RNG.integers(6, size=30) / 1.0).tolist()}),
            "y": make_table({**pairs(20, 100), "label": (RNG.integers(6, size=20) / 1.0).tolist()}),
        },
    ),
    STSTask("two", {"test": make_table({**pairs(40, 200), "label": (RNG.random(40) * 5).tolist()})}),
]
GOLD = {
    task.name: np.concatenate([np.asarray(table["label"]) for table in task.subsets.values()])
    for task in TASKS
}
SCORES = {name: np.tanh((gold + RNG.normal(size=len(gold))) / 5) for name, gold in GOLD.items()}


@pytest.fixture
def leaks() -> LeakedRows:
    """Each second pair leaks."""
    train = [
        pair
        for task in TASKS
        for table in task.subsets.values()
        for pair in list(zip(table["sentence1"], table["sentence2"], strict=True))[::2]
    ]
    return find_leaked_rows(train, TASKS, "mine", near=None)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    run.mkdir()
    parts = [SCORES["one"][:30], SCORES["one"][30:], SCORES["two"]]
    save_predictions(RunFolder(run), TASKS, parts)
    return run


def test_predictions_of_a_run_or_of_a_file(run: Path) -> None:
    for source in (run, run / "predictions.npz"):
        found = read_similarities(str(source), TASKS)
        assert list(found) == ["one", "two"]
        for name, (scores, gold) in found.items():
            assert scores == pytest.approx(SCORES[name])
            assert gold == pytest.approx(GOLD[name])


def test_vectors(tmp_path: Path) -> None:
    vectors = {
        f"{name}/{side}": RNG.normal(size=(len(gold), 4))
        for name, gold in GOLD.items()
        for side in ("first", "second")
    }
    np.savez(tmp_path / "vectors.npz", **vectors)
    found = read_similarities(str(tmp_path / "vectors.npz"), TASKS)
    for name in GOLD:
        assert found[name][0] == pytest.approx(
            pair_cosines(vectors[f"{name}/first"], vectors[f"{name}/second"])
        )


def test_models_are_encoded(encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow, "load", lambda source, trust, remote: encoder)
    found = read_similarities("owner/name", TASKS)
    table = TASKS[0].subsets["y"]
    expected = pair_cosines(
        encoder.encode(list(table["sentence1"])), encoder.encode(list(table["sentence2"]))
    )
    assert found["one"][0][30:] == pytest.approx(expected, abs=1e-5)
    assert found["two"][1] == pytest.approx(GOLD["two"])


def change_vectors(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"one/first": np.zeros((50, 3)), "one/second": np.zeros((49, 3))}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda a: {**a, "two/gold": a["two/gold"][::-1]}, "two"),
        (lambda a: {name: values for name, values in a.items() if name.startswith("one")}, "two"),
        (lambda a: {**a, "one/gold": a["one/gold"][:9], "one/cosine": a["one/cosine"][:9]}, "one"),
        (lambda a: {**a, "one/cosine": a["one/cosine"] * np.nan}, "one"),
        (lambda a: {name: values for name, values in a.items() if name != "one/gold"}, "one/gold"),
        (change_vectors, "(50, 3)"),
        (lambda a: {}, "no predictions"),
    ],
)
def test_other_predictions(
    change: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]], named: str, run: Path
) -> None:
    path = run / "predictions.npz"
    with np.load(path) as arrays:
        found = change(dict(arrays))
    np.savez(path, **found)
    with pytest.raises(CheckpointError) as caught:
        read_similarities(str(path), TASKS)
    assert str(path) in str(caught.value)
    assert named in str(caught.value)


def test_missing_sources(tmp_path: Path) -> None:
    for name in ("absent.npz", "absent"):
        with pytest.raises(CheckpointError, match="absent"):
            read_similarities(str(tmp_path / name), TASKS)


def test_leaks_of_other_test_sets(leaks: LeakedRows, run: Path) -> None:
    with pytest.raises(DataError) as caught:
        audit_model(str(run), None, [*TASKS, STSTask("three", TASKS[0].subsets)], leaks)
    assert caught.value.key == "rows"


def test_the_report(leaks: LeakedRows, run: Path) -> None:
    report = audit_model(str(run), None, TASKS, leaks, resamples=50)
    assert report.audit.whole is not None
    assert report.audit.whole.marked + report.audit.whole.controls <= 90
    assert report.scores is not None
    assert report.scores["average"].clean_pairs == sum(
        (test.kinds == "").sum() for test in leaks.tests.values()
    )
    assert report.reference_scores is not None
    itself = audit_model(str(run), str(run), TASKS, leaks, resamples=50)
    assert itself.audit.slope == pytest.approx(1)
    assert itself.scores == itself.reference_scores == report.scores
