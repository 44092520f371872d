"""Costs of many runs: equal ones are planned once, and one without a plan says why."""

from __future__ import annotations

from sts_lightning.planning.cost_lines import Costs
from tests.unit.planning.test_costs import TINY, Config
from tests.unit.planning.test_costs import kept as kept


def test_without_a_card_there_is_no_time(config: Config) -> None:
    text = Costs()(config(*TINY, "trainer=cpu", "data.train_size=64"))
    assert "MiB, fits this CPU, " in text and "steps" in text and text.endswith("M tokens")


def test_a_run_that_needs_a_gpu_is_planned_for_a_common_one(config: Config) -> None:
    assert ", fits 24GB, " in Costs()(config(*TINY, "trainer=gpu", "data.train_size=64"))
