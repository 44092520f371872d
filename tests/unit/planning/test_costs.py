"""Costs of many runs: equal ones are planned once, and one without a plan says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from sts_lightning.core.errors import ConfigError
from sts_lightning.planning import estimate as module
from sts_lightning.planning.cost_lines import Costs, duration, size
from sts_lightning.planning.estimate import Estimate
from sts_lightning.planning.gpus import GPUS

Config = Callable[..., DictConfig]

TINY = ["model=tiny_bert", "data=toy", "data.batch_size=8"]


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the costs that were computed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/sts-lightning/plans"


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Batch sizes of the runs that were planned."""
    sizes: list[int] = []

    def counted(cfg: DictConfig, card: object, splits: object) -> Estimate:
        sizes.append(cfg.data.batch_size)
        return estimated(cfg, card, splits)

    monkeypatch.setattr(module, "estimate", counted)
    return sizes


def estimated(cfg: DictConfig, card: object, splits: object) -> Estimate:
    if cfg.model.get("quantization") == "8bit":
        raise ConfigError("no 8-bit weights.", key="model.quantization")
    assert card is GPUS["h100"]
    return Estimate(GPUS["h100"], "32-true", 4, {"weights": 81 * 2**30}, 1200, 3_000_000, 9000.0, ())


def test_equal_runs_are_planned_once(config: Config, planned: list[int]) -> None:
    cost = Costs("h100")
    text = cost(config(*TINY, "seed=1", "optim.lr=1e-5", "name=first"))
    assert text == "81.00 GiB, does not fit h100, micro batch 4, 1,200 steps, 3.0 M tokens, 2.5 hours"
    assert cost(config(*TINY, "seed=2", "optim.lr=2e-5", "name=second")) == text
    cost(config(*TINY, "data.batch_size=16"))
    assert planned == [8, 16]


def test_a_cost_is_kept_until_what_determines_it_changes(
    config: Config, planned: list[int], kept: Path, tmp_path: Path
) -> None:
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("a,b,1\n")
    overrides = ["model=tiny_bert", "data=pairs_file", "data.batch_size=8"]
    cfg = config(*overrides, f"path={pairs}")
    first = Costs("h100").of(cfg)
    assert first.seconds == 9000
    assert Costs("h100").of(cfg) == first
    assert len(planned) == 1

    pairs.write_text("a,b,1\nc,d,2\n")
    Costs("h100").of(cfg)
    assert len(planned) == 2
    for path in kept.iterdir():
        path.write_text("{")  # as after a full disk
    assert Costs("h100").of(cfg) == first
    assert len(planned) == 3
    assert Costs("h100").of(cfg) == first
    assert len(planned) == 3


def test_a_run_without_a_plan_says_why(config: Config, planned: list[int], kept: Path) -> None:
    cost = Costs("h100")
    assert "8-bit" in cost(config("model=tiny_mistral", "prompt=eol", "data=toy", "model.quantization=8bit"))
    assert planned and not kept.exists()  # the reason may be gone tomorrow


def test_a_card_that_is_not_known() -> None:
    with pytest.raises(ConfigError) as caught:
        Costs("rtx")
    assert caught.value.key == "card"


def test_units() -> None:
    assert (size(3 * 2**30), size(2**20)) == ("3.00 GiB", "1.0 MiB")
    assert (duration(119), duration(600), duration(9000)) == ("119 s", "10 minutes", "2.5 hours")
