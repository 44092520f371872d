"""Averages of the selected weights and the start, against ones computed from the weights of a usual run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from sts_lightning.models.loading.run import build_encoder
from sts_lightning.workflows.average import average_runs
from sts_lightning.workflows.start import train_in
from tests.conftest import CONF, EXACT, SHORT_RUN
from tests.support.averaged_runs import dev_of
from tests.support.whole_runs import metrics, weights

Config = Callable[..., DictConfig]

State = dict[str, torch.Tensor]

TOO_FAST = [
    *SHORT_RUN,
    "optim.lr=2e-2",
    "optim.warmup=0",
    "trainer.max_epochs=-1",
    "trainer.max_steps=4",
    "trainer.val_every=4",
]
"""A run that goes too far, so that weights on its way are better than those at its end."""

SHARES = [0.0, 0.01, 0.1, 0.5]

MIXED = f"trainer.wise_ft={SHARES}"


def trained(run: Path, *overrides: str) -> Path:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        train_in(run, compose("train", [*TOO_FAST, EXACT, "name=test", *overrides]))
    return run


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("runs") / "usual")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("runs") / "mixed", MIXED)


def start_of(cfg: DictConfig) -> State:
    torch.manual_seed(cfg.seed)
    encoder = build_encoder(cfg.model, cfg.prompt)
    return {f"encoder.{name}": value for name, value in encoder.state_dict().items()}


def average(start: State, tuned: State, share: float) -> State:
    return {
        name: (1 - share) * start[name] + share * value if value.is_floating_point() else value
        for name, value in tuned.items()
    }


def test_dev_selects_among_averages_with_the_start(usual: Path, mixed: Path, config: Config) -> None:
    start, tuned = start_of(config(*TOO_FAST)), weights(usual)
    found = metrics(mixed)["wise_ft"]
    expected = {share: dev_of(usual, average(start, tuned, share)) for share in (1.0, *SHARES)}
    assert {float(share): dev for share, dev in found["dev"].items()} == pytest.approx(expected, abs=1e-2)
    best = max(expected, key=lambda share: expected[share])
    assert 0 < best < 1  # or the test tells nothing
    assert found["share"] == best
    assert found["start"] == found["dev"]["0"]
    for name, value in average(start, tuned, best).items():
        torch.testing.assert_close(weights(mixed)[name], value)
    assert metrics(mixed)["dev"]["spearman"] == pytest.approx(expected[best], abs=1e-2)
    assert metrics(mixed)["test"] != metrics(usual)["test"]


def test_the_command_makes_the_same_average(usual: Path, mixed: Path, tmp_path: Path) -> None:
    scores = average_runs([usual], tmp_path / "average", SHARES)
    assert list(scores.values())[1:] == list(metrics(mixed)["wise_ft"]["dev"].values())
    assert metrics(tmp_path / "average")["averaged"]["share"] == metrics(mixed)["wise_ft"]["share"]
    for name, value in weights(tmp_path / "average").items():
        assert torch.equal(value, weights(mixed)[name]), name
