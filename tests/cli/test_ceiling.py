"""`sts-lightning` as a user calls it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sts_lightning.cli.main import main
from sts_lightning.evaluation.bootstrap import score_intervals
from tests.cli.helpers import write_run


@pytest.fixture
def gold() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 26, size=400) / 5


def test_compare(tmp_path: Path, gold: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = write_run(tmp_path / "good", 0.5, 1, gold), write_run(tmp_path / "bad", 2.0, 2, gold)
    main(["compare", str(tmp_path / "bad"), "--to", str(tmp_path / "good"), "--resamples", "200"])
    printed = capsys.readouterr().out
    for task in good:
        line = next(line for line in printed.splitlines() if task in line)
        assert f"{bad[task]:.2f} [" in line
        assert f"{good[task]:.2f} [" in line
        assert f"{good[task] - bad[task]:+.2f} [" in line
        assert "*" in line
    main(["compare", str(tmp_path / "bad"), "--to", str(tmp_path / "bad"), "--resamples", "50"])
    assert "+0.00 [+0.00, +0.00]" in capsys.readouterr().out


def test_intervals_cover_as_often_as_they_say(gold: np.ndarray) -> None:
    """Against scipy's bootstrap of the same statistic."""
    cosines = gold + np.random.default_rng(3).normal(size=len(gold))

    def spearman(first: np.ndarray, second: np.ndarray) -> float:
        return 100 * float(stats.spearmanr(first, second).statistic)

    found = score_intervals([{"task": (cosines, gold)}], resamples=2000)["task"]
    reference = stats.bootstrap(
        (cosines, gold), spearman, paired=True, vectorized=False, n_resamples=2000, method="percentile", rng=0
    ).confidence_interval
    assert found.estimate == pytest.approx(spearman(cosines, gold))
    assert found.low == pytest.approx(reference.low, abs=0.4)
    assert found.high == pytest.approx(reference.high, abs=0.4)


def test_compare_refuses_other_pairs_and_missing_runs(tmp_path: Path, gold: np.ndarray) -> None:
    write_run(tmp_path / "one", 1.0, 1, gold)
    write_run(tmp_path / "other", 1.0, 1, gold[::-1].copy())
    with pytest.raises(SystemExit, match="were not scored on the same test pairs"):
        main(["compare", str(tmp_path / "one"), "--to", str(tmp_path / "other")])
    with pytest.raises(SystemExit, match="the run has no test report"):
        main(["compare", str(tmp_path / "one"), "--to", str(tmp_path)])


def test_ceiling_of_the_test_sets(data_root: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plot = tmp_path / "ceilings.png"
    main(["ceiling", "--data-root", data_root, "--levels", "2", "3", "--plot", str(plot)])
    printed = capsys.readouterr().out
    assert "average" in printed
    assert "86.84" in printed
    assert plot.is_file()


def test_ceiling_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.tsv"
    file.write_text("rating\n" + "".join(f"{number}\n" for number in range(1000)))
    main(["ceiling", str(file), "--score", "rating", "--levels", "2"])
    printed = capsys.readouterr().out
    assert "86.60" in printed
    assert "87.50" in printed
    file.write_text("rating\n1\ntwo\n")
    with pytest.raises(SystemExit, match=r"mine.tsv, line 3: the score 'two' is not a number"):
        main(["ceiling", str(file), "--score", "rating"])
    file.write_text("rating\n1\n1\n")
    with pytest.raises(SystemExit, match="all gold scores are equal"):
        main(["ceiling", str(file), "--score", "rating"])
    with pytest.raises(SystemExit, match="no STS data here"):
        main(["ceiling", "--data-root", str(tmp_path)])
