"""Costs of many runs: equal ones are planned once, and one without a plan says why."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from omegaconf import DictConfig

from sts_lightning.core.errors import ConfigError
from sts_lightning.planning import cost_lines as module
from sts_lightning.planning.cost_lines import Costs, duration, size
from sts_lightning.planning.estimate import Estimate
from sts_lightning.planning.gpus import GPUS

Config = Callable[..., DictConfig]

TINY = ["model=tiny_bert", "data=toy", "data.batch_size=8"]


def estimated(cfg: DictConfig, card: object) -> Estimate:
    if cfg.model.get("quantization") == "8bit":
        raise ConfigError("no 8-bit weights.", key="model.quantization")
    assert card is GPUS["h100"]
    return Estimate(GPUS["h100"], "32-true", 4, {"weights": 81 * 2**30}, 1200, 3_000_000, 9000.0, ())


def test_equal_runs_are_planned_once(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[int] = []

    def counted(cfg: DictConfig, card: object) -> Estimate:
        planned.append(cfg.data.batch_size)
        return estimated(cfg, card)

    monkeypatch.setattr(module, "estimate", counted)
    cost = Costs("h100")
    text = cost(config(*TINY, "seed=1", "optim.lr=1e-5", "name=first"))
    assert text == "81.00 GiB, does not fit h100, micro batch 4, 1,200 steps, 3.0 M tokens, 2.5 hours"
    assert cost(config(*TINY, "seed=2", "optim.lr=2e-5", "name=second")) == text
    cost(config(*TINY, "data.batch_size=16"))
    assert planned == [8, 16]


def test_a_run_without_a_plan_says_why(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "estimate", estimated)
    cost = Costs("h100")
    assert "8-bit" in cost(config("model=tiny_mistral", "prompt=eol", "data=toy", "model.quantization=8bit"))


def test_a_card_that_is_not_known() -> None:
    with pytest.raises(ConfigError) as caught:
        Costs("rtx")
    assert caught.value.key == "card"


def test_units() -> None:
    assert (size(3 * 2**30), size(2**20)) == ("3.00 GiB", "1.0 MiB")
    assert (duration(119), duration(600), duration(9000)) == ("119 s", "10 minutes", "2.5 hours")
