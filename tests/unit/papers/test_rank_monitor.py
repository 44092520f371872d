from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sts_lightning.data.table import Table
from sts_lightning.papers.rank_monitor import RankMonitor
from sts_lightning.testing.tiny_bert import tiny_bert


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


@pytest.mark.parametrize(
    ("scores", "left_out"), [([0.0, 4.0, 5.0], False), ([0.0, 80.0, 100.0], True), ([0.0, 0.8, 1.0], True)]
)
def test_alignment_is_that_of_scores_up_to_5(scores: list[float], left_out: bool) -> None:
    texts = ["a dog", "birds", "a cat"]
    dev = Table({"sentence1": texts, "sentence2": texts[::-1], "label": scores})
    logged: dict[str, float] = {}
    trainer: Any = SimpleNamespace(datamodule=SimpleNamespace(dev=dev), global_step=0)
    log_at = lambda metrics, step: logged.update(metrics)  # noqa: E731
    module: Any = SimpleNamespace(encoder=tiny_bert().eval(), log_at=log_at)
    RankMonitor().on_train_start(trainer, module)
    assert ("rank/alignment" not in logged) == left_out
