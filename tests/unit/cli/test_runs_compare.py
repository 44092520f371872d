"""`sts-lightning runs compare`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sts_lightning.cli.main import main
from tests.support.command_line import write_run


@pytest.fixture
def gold() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 26, size=400) / 5


def test_compare(tmp_path: Path, gold: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = write_run(tmp_path / "good", 0.5, 1, gold), write_run(tmp_path / "bad", 2.0, 2, gold)
    main(["runs", "compare", str(tmp_path / "bad"), "--to", str(tmp_path / "good"), "--resamples", "200"])
    printed = capsys.readouterr().out
    for task in good:
        line = next(line for line in printed.splitlines() if task in line)
        assert f"{bad[task]:.2f} [" in line
        assert f"{good[task]:.2f} [" in line
        assert f"{good[task] - bad[task]:+.2f} [" in line
        assert "*" in line
    main(["runs", "compare", str(tmp_path / "bad"), "--to", str(tmp_path / "bad"), "--resamples", "50"])
    assert "+0.00 [+0.00, +0.00]" in capsys.readouterr().out


def test_compare_refuses_a_run_that_would_count_twice(tmp_path: Path, gold: np.ndarray) -> None:
    one, other = (tmp_path / name for name in ("one", "other"))
    write_run(one, 1.0, 1, gold)
    write_run(other, 2.0, 1, gold)
    again = f"{tmp_path}/other/../one"
    with pytest.raises(SystemExit, match=r"runs: .*one is named twice"):
        main(["runs", "compare", str(one), again, "--to", str(other)])
    with pytest.raises(SystemExit, match=r"--to: .*one is named twice, and would count as often"):
        main(["runs", "compare", str(other), "--to", str(one), "--to", str(one)])


def test_compare_refuses_other_pairs_and_missing_runs(tmp_path: Path, gold: np.ndarray) -> None:
    write_run(tmp_path / "one", 1.0, 1, gold)
    write_run(tmp_path / "other", 1.0, 1, gold[::-1].copy())
    with pytest.raises(SystemExit, match="were not scored on the same test pairs"):
        main(["runs", "compare", str(tmp_path / "one"), "--to", str(tmp_path / "other")])
    with pytest.raises(SystemExit, match="is not a run folder: it has no"):
        main(["runs", "compare", str(tmp_path / "one"), "--to", str(tmp_path)])


def test_compare_refuses_other_texts(tmp_path: Path, gold: np.ndarray) -> None:
    for name in ("one", "other"):
        write_run(tmp_path / name, 1.0, 1, gold)
        path = tmp_path / name / "predictions.npz"
        np.savez(path, **dict(np.load(path)), **{"STSB/pairs": np.array(f"hash of {name}")})
    main(["runs", "compare", str(tmp_path / "one"), "--to", str(tmp_path / "one"), "--resamples", "5"])
    with pytest.raises(SystemExit, match="were scored on different pairs under the name STSB"):
        main(["runs", "compare", str(tmp_path / "one"), "--to", str(tmp_path / "other"), "--resamples", "5"])


def test_compare_refuses_means_over_subsets(tmp_path: Path, gold: np.ndarray) -> None:
    scores = write_run(tmp_path / "one", 1.0, 1, gold)
    tasks = {name: {"spearman": value} for name, value in scores.items()}
    test = {"aggregate": "mean", "average": 50.0, "tasks": tasks}
    (tmp_path / "one" / "metrics.json").write_text(json.dumps({"dev": {"spearman": 80.0}, "test": test}))
    with pytest.raises(SystemExit, match=r"one was scored with aggregate=mean.*with aggregate=all"):
        main(["runs", "compare", str(tmp_path / "one"), "--to", str(tmp_path / "one")])


def test_compare_alone_prints_the_verdict_of_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scores = {"dev": {"mrr@10": 50.0, "queries": 60}}
    verdict = {"verdict": "better", "score": "MRR@10", "before": 40.0, "after": 50.0}
    verdict |= {"difference": 10.0, "low": 4.0, "high": 16.0, "units": "60 held-out queries"}
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "metrics.json").write_text(json.dumps(scores | {"verdict": verdict}))
    with caplog.at_level("INFO"):
        main(["runs", "compare", str(tmp_path / "one")])
    line = "one: better: MRR@10 40.0 -> 50.0, +10.0 [+4.0, +16.0] on 60 held-out queries"
    assert line in caplog.messages
