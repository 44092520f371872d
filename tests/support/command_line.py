"""What a command says, and runs that it reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sts_lightning.cli.main import main
from sts_lightning.runs.folder import RunFolder


def leaves(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says as it leaves."""
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    message = str(left.value) if isinstance(left.value.code, str) else capsys.readouterr().err
    assert message.count("\n") <= 1 or message.startswith("Usage: ")
    return message.rstrip()


def write_run(folder: Path, noise: float, seed: int, gold: np.ndarray) -> dict[str, float]:
    """A run folder with predictions of two tasks; its scores."""
    rng = np.random.default_rng(seed)
    folder.mkdir()
    arrays, scores = {}, {}
    for task in ("STSB", "SICKR"):
        cosines = np.tanh((gold + noise * rng.normal(size=len(gold))) / 10)
        arrays |= {f"{task}/cosine": cosines, f"{task}/gold": gold}
        scores[task] = 100 * float(stats.spearmanr(cosines, gold).statistic)
    np.savez(RunFolder(folder).predictions_file, **arrays)
    return scores
