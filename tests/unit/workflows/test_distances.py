"""The warning of dev scores in reverse."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from sts_lightning.workflows.train import warn_of_distances


@pytest.mark.parametrize(("pairs", "warns"), [(10, -90), (20, -60), (70, -33), (1000, -31)])
def test_the_limit_is_beyond_chance(pairs: int, warns: float, caplog: pytest.LogCaptureFixture) -> None:
    """One in a hundred random orders of the pairs or fewer has such a correlation."""
    warn_of_distances(warns, pairs)
    assert "seem to be distances" in caplog.text
    rng = np.random.default_rng(0)
    drawn = [spearmanr(rng.random(pairs), rng.random(pairs)).statistic * 100 for _ in range(500)]
    caplog.clear()
    for value in drawn:
        warn_of_distances(float(value), pairs)
    assert caplog.text.count("seem to be") <= 5
