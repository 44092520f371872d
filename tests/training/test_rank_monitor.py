from __future__ import annotations

from typing import Any

import pytest

from sts_lightning.training.rank_monitor import RankMonitor


@pytest.mark.parametrize(
    "argument",
    [
        {"every": 0},
        {"pairs": 1},
        {"fraction": 0.0},
        {"power": 3},
        {"patience": 0},
        {"margin": 1.0},
        {"views": "pairs"},
    ],
)
def test_an_argument_out_of_range_is_named_first(argument: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(argument))} "):
        RankMonitor(**argument)
