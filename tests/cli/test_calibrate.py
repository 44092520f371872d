"""`sts-lightning calibrate`, and what `sts-lightning score` makes of it, on a run that was not trained."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sts_lightning.cli.main import main
from tests.cli.helpers import leaves
from tests.shared_runs.entries import write_finished

WORDS = ["dog", "cat", "rain", "sun", "boy", "girl", "road", "tree"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("runs") / "run"
    write_finished(folder)
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Forty pairs with scores on a scale from 1 to 7."""
    rng = np.random.default_rng(0)
    path = tmp_path / "pairs.csv"
    lines = ["q,a,rating"]
    for _ in range(40):
        first, second = (" ".join(rng.choice(WORDS, 3)) for _ in range(2))
        lines.append(f"{first},{second},{rng.integers(10, 71) / 10}")
    path.write_text("\n".join(lines) + "\n")
    return path


COLUMNS = ["--columns", "q", "a", "rating"]


def scored(run: Path, pairs: Path, *options: str) -> list[dict[str, str]]:
    out = pairs.with_name("scores.csv")
    main(["score", str(run), str(pairs), "--columns", "q", "a", "--to", str(out), *options])
    return list(csv.DictReader(out.open()))


def test_scores_with_the_calibration_of_the_run(
    run: Path, pairs: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    before = scored(run, pairs)
    assert list(before[0]) == ["q", "a", "cosine"]
    with caplog.at_level("INFO"):
        main(["calibrate", str(run), str(pairs), *COLUMNS, "--score-range", "1", "7", "--coverage", "0.8"])
    assert "20 pairs" in caplog.text
    stored = json.loads((run / "calibration.json").read_text())
    assert (stored["fitted"], stored["held_out"], stored["coverage"]) == (20, 20, 0.8)
    capsys.readouterr()
    after = scored(run, pairs)
    said = capsys.readouterr()
    assert f"scores by {run / 'calibration.json'}, intervals of coverage 0.8" in said.err
    assert list(after[0]) == ["q", "a", "cosine", "score", "low", "high"]
    assert [row["cosine"] for row in after] == [row["cosine"] for row in before]
    columns = {name: np.array([float(row[name]) for row in after]) for name in after[0] if name not in "qa"}
    order = np.argsort(columns["cosine"])
    assert (np.diff(columns["score"][order]) >= 0).all()
    assert (columns["low"] <= columns["score"]).all()
    assert (columns["high"] <= 7).all()
    ratings = np.array([float(row["rating"]) for row in csv.DictReader(pairs.open())])
    covered = ((columns["low"] <= ratings + 1e-6) & (ratings <= columns["high"] + 1e-6)).sum()
    assert covered >= stats.binom(40, 0.8).ppf(0.001)
    assert scored(run, pairs, "--no-calibration") == before


def test_a_calibration_in_another_file(run: Path, pairs: Path, tmp_path: Path) -> None:
    made = tmp_path / "made.json"
    main(["calibrate", str(run), str(pairs), *COLUMNS, "--to", str(made)])
    assert not (run / "calibration.json").exists()
    assert list(scored(run, pairs)[0]) == ["q", "a", "cosine"]
    assert "low" in scored(run, pairs, "--calibration", str(made))[0]
    main(["calibrate", str(run), str(pairs), *COLUMNS])
    assert (run / "calibration.json").read_text() == made.read_text()


def test_a_calibration_of_other_weights(run: Path, pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["calibrate", str(run), str(pairs), *COLUMNS])
    with (run / "checkpoints" / "best.ckpt").open("ab") as file:
        file.write(b"\0")
    message = leaves("score", str(run), str(pairs), "--columns", "q", "a", capsys=capsys)
    assert "other weights or settings" in message
    assert "calibrate" in message
    both = ["--calibration", "x", "--no-calibration"]
    assert "not allowed with" in leaves("score", str(run), str(pairs), *both, capsys=capsys)


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (None, ["--coverage", "0.99"], "40 pairs are too few for intervals of coverage 0.99: 197 are needed"),
        (None, ["--coverage", "1"], "coverage must lie between 0 and 1"),
        (None, ["--coverage", "90"], "not a number from 0 to 1"),
        (None, ["--score-range", "7", "1"], "--score-range must be"),
        (None, ["--score-range", "1", "\u0667"], "not a number"),
        (None, ["--score-range", "1", "1_0"], "not a number"),
        (None, ["--score-range", "nan", "7"], "not a number"),
        (None, ["--score-range", "1", "3"], "outside [1, 3]"),
        (",7.5\n", ["--score-range", "1", "7"], "line 2: the score 7.5 lies outside [1, 7]"),
        (",good\n", [], "line 2: the score 'good' is not a number"),
        (None, ["--columns", "q", "a", "q"], "three different columns"),
        (None, ["--columns", "q", "a", "x"], "no column named 'x'"),
        (None, ["--to", "missing/made.json"], "the folder missing does not exist"),
    ],
)
def test_mistakes(
    change: str | None,
    options: list[str],
    words: str,
    run: Path,
    pairs: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if change is not None:
        lines = pairs.read_text().splitlines(keepends=True)
        lines[1] = lines[1].rpartition(",")[0] + change
        pairs.write_text("".join(lines))
    before = sorted(run.rglob("*"))
    columns = [] if "--columns" in options else COLUMNS
    assert words in leaves("calibrate", str(run), str(pairs), *columns, *options, capsys=capsys)
    assert sorted(run.rglob("*")) == before


def test_constant_scores_and_no_run(
    run: Path, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = pairs.read_text().splitlines()
    pairs.write_text("\n".join([lines[0], *(f"{line.rpartition(',')[0]},3" for line in lines[1:])]))
    assert "all 40 scores equal 3" in leaves("calibrate", str(run), str(pairs), *COLUMNS, capsys=capsys)
    assert "not a run folder" in leaves("calibrate", str(tmp_path), str(pairs), *COLUMNS, capsys=capsys)
