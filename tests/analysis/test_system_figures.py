"""What is drawn, read back from the axes."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from sts_lightning.analysis.system_figures import System, instability, rank_scores
from tests.analysis.test_figures import drawn, names

SYSTEMS = [
    System("A", False, [300, 310], [76.0, 78.0]),
    System("A + RR", True, [200, 190], [79.0, 79.5], "A"),
    System("B", False, [250, 240], [77.0, 78.2]),
]


def test_means_with_and_without_rank_reduction() -> None:
    axis = rank_scores(SYSTEMS, "rank", "score", "title").axes[0]
    assert drawn(axis) == [([305, 245], [77.0, 77.6]), ([195], [79.25])]
    assert names(axis) == ["original", "with rank reduction"]
    arrows = [(text.xy, text.xyann) for text in axis.texts if getattr(text, "arrow_patch", None)]
    assert arrows == [((195, 79.25), (305, 77.0))]
    assert {text.get_text() for text in axis.texts} == {"", "A", "A + RR", "B"}


def test_spread_over_seeds_and_its_correlation() -> None:
    axis = instability(SYSTEMS, "rank", "score", "title").axes[0]
    spreads = [statistics.stdev(one.scores) for one in SYSTEMS]
    assert drawn(axis) == [([305, 245], [spreads[0], spreads[2]]), ([195], [spreads[1]])]
    r = np.corrcoef([305, 195, 245], spreads)[0, 1]
    assert axis.get_title() == f"title\nPearson's correlation {r:.2f}"


def test_a_correlation_of_too_few_is_rejected() -> None:
    with pytest.raises(ValueError, match="three systems"):
        instability(SYSTEMS[:2], "rank", "score", "title")
    with pytest.raises(ValueError, match=r"^A has one run"):
        instability([System("A", False, [1], [2]), *SYSTEMS], "rank", "score", "title")
