"""The command `sts-lightning audit` on a small data root."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from sts_lightning.cli.audit import conclude
from sts_lightning.cli.main import main
from sts_lightning.data.readers.senteval import STS_YEARS
from sts_lightning.evaluation.matched import MatchedDifference
from tests.cli.helpers import leaves

ROWS = 30
"""Pairs of each file; each third one is in STS-B train."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root in SentEval's layout."""
    folder = tmp_path / "data" / "senteval"
    rng = np.random.default_rng(0)
    leaked = []
    for year, subsets in STS_YEARS.items():
        place = folder / "STS" / f"{year}-en-test"
        place.mkdir(parents=True)
        for subset in subsets:
            pairs = [(f"{year} {subset} sentence {row}", f"another {row}") for row in range(ROWS)]
            golds = rng.integers(6, size=ROWS)
            (place / f"STS.input.{subset}.txt").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
            (place / f"STS.gs.{subset}.txt").write_text("".join(f"{gold}\n" for gold in golds))
            leaked += pairs[::3]
    (folder / "counts.json").write_text("{}")
    (folder / "STS" / "STSBenchmark").mkdir()
    (folder / "SICK").mkdir()
    for split in ("train", "dev", "test"):
        pairs = leaked if split == "train" else [(f"{split} {row}", f"other {row}") for row in range(ROWS)]
        lines = [f"g\tf\ty\t{row}\t{row % 6}\t{a}\t{b}" for row, (a, b) in enumerate(pairs)]
        (folder / "STS" / "STSBenchmark" / f"sts-{split}.csv").write_text("\n".join(lines))
    for name in ("SICK_train.txt", "SICK_test_annotated.txt"):
        lines = [f"{row}\t{name} {row}\tother {row}\t{1 + row % 5}\tNEUTRAL" for row in range(ROWS)]
        (folder / "SICK" / name).write_text("\n".join(["pair_ID\tA\tB\tscore\tjudgment", *lines]))
    return tmp_path / "data"


@pytest.fixture
def rows(root: Path, tmp_path: Path) -> Path:
    path = tmp_path / "rows.json"
    main(["leaks", "--data-root", str(root), "--near", "0", "--rows", str(path)])
    return path


@pytest.fixture
def predictions(root: Path, tmp_path: Path) -> Path:
    """Those of a model that knows the leaked pairs."""
    from sts_lightning.data.readers.senteval import load_sts_tasks

    rng = np.random.default_rng(1)
    arrays = {}
    for task in load_sts_tasks(root):
        gold = np.concatenate([np.asarray(table["label"]) for table in task.subsets.values()])
        known = (np.arange(len(gold)) % 3 == 0) & task.name.startswith("STS1")
        noise = rng.normal(size=len(gold)) * np.where(known, 0.2, 1)
        arrays[f"{task.name}/cosine"] = (gold + noise) / 10
        arrays[f"{task.name}/gold"] = gold
    np.savez(tmp_path / "model.npz", **arrays)
    return tmp_path / "model.npz"


@pytest.mark.slow
def test_the_command(
    root: Path, rows: Path, predictions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["audit", str(predictions), "--data-root", str(root), "--rows", str(rows), "--resamples", "100"]
    main([*command, "--json", str(tmp_path / "audit.json")])
    said = capsys.readouterr().out
    assert "A sign of leaks" in said
    content = json.loads((tmp_path / "audit.json").read_text())
    assert content["training"] == "STS-B train and SICK-R train"
    assert content["reference"] == "word overlap"
    whole = content["audit"]["whole"]
    assert whole["p_value"] == pytest.approx(1 / 101)
    assert whole["low"] > 0
    assert content["audit"]["sets"]["STSB"] is None
    subsets = sum(map(len, STS_YEARS.values()))
    assert whole["marked"] <= subsets * ROWS / 3 < whole["controls"]
    average = content["scores"]["average"]
    assert (average["pairs"], average["clean_pairs"]) == (
        (subsets + 2) * ROWS,
        subsets * 2 * ROWS // 3 + 2 * ROWS,
    )
    assert f"{average['clean']:.2f}" in said
    other = shutil.copy(predictions, tmp_path / "other.npz")
    main([*command, "--reference", str(other)])
    assert "No sign of leaks" in capsys.readouterr().out


def test_mistakes(root: Path, rows: Path, predictions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--data-root", str(root)]
    assert "--rows" in leaves("audit", str(predictions), *data, capsys=capsys)  # not the published sets
    assert "absent.json" in leaves("audit", str(predictions), *data, "--rows", "absent.json", capsys=capsys)
    same = ["--rows", str(rows), "--json", str(predictions)]
    assert "--json" in leaves("audit", str(predictions), *data, *same, capsys=capsys)
    assert "absent.npz" in leaves("audit", "absent.npz", *data, "--rows", str(rows), capsys=capsys)
    itself = ["--rows", str(rows), "--reference", str(predictions)]
    assert "--reference" in leaves("audit", str(predictions), *data, *itself, capsys=capsys)
    against = ["--against", str(predictions), "--rows", "new.json"]
    assert "--rows" in leaves("leaks", *data, *against, capsys=capsys)


def test_conclusions() -> None:
    found = MatchedDifference(0.1, 0.05, 0.15, 0.05, 0.06, 10, 20, 5)
    assert "+0.100 [+0.050, +0.150]" in conclude(found)
    assert conclude(found).startswith("A sign of leaks: ")
    # A model trained on like data without the pairs fits them better than the model that it started from.
    against_start = conclude(found, "runs/start")
    assert against_start.startswith("A sign of leaks, or of training data like them: ")
    assert "runs/start" in against_start
    weak = MatchedDifference(0.01, -0.05, 0.07, 0.051, 0.06, 10, 20, 5)
    assert conclude(weak).startswith("No sign of leaks")
    assert "0.060" in conclude(weak)
    assert conclude(None).startswith("No conclusion")
