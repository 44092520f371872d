"""Averages of the selected weights and the start, against ones computed from the weights of a usual run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

import sts_lightning
from sts_lightning.config.trust import NOTHING
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows import report
from sts_lightning.workflows.average import average_runs
from sts_lightning.workflows.command import train_in
from sts_lightning.workflows.verify import verify
from tests.conftest import CONF, EXACT, SHORT_RUN
from tests.support.averaged_runs import dev_of
from tests.support.whole_runs import metrics, same_results, weights

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


def test_what_reads_runs_reads_the_average(usual: Path, mixed: Path) -> None:
    text = ["abc"]
    assert abs(sts_lightning.load(mixed).encode(text) - sts_lightning.load(usual).encode(text)).max() > 1e-3
    checks = list(verify(RunFolder(mixed), NOTHING))
    assert {check.outcome for check in checks} == {"ok"}, checks
    best, last = (RunFolder(mixed).read_checkpoint(which) for which in ("best", "last"))
    assert "wise_ft" in best
    assert "wise_ft" not in last
    assert RunFolder(mixed).metrics().details["wise_ft"]["share"] == best["wise_ft"]["share"]


def test_the_start_is_that_of_init_from(usual: Path, config: Config, tmp_path: Path) -> None:
    second = [*TOO_FAST, f"init_from={usual}", "seed=2"]
    train_in(tmp_path / "plain", config(*second))
    train_in(tmp_path / "mixed", config(*second, "trainer.wise_ft=[0]", "evaluation.final=false"))
    expected = {
        1.0: dev_of(usual, weights(tmp_path / "plain")),
        0.0: dev_of(usual, weights(usual)),
    }
    found = metrics(tmp_path / "mixed")["wise_ft"]["dev"]
    assert {float(share): dev for share, dev in found.items()} == pytest.approx(expected, abs=1e-2)


def test_the_start_may_be_a_run_that_trained_a_head_alone(config: Config, tmp_path: Path) -> None:
    head = [*TOO_FAST, "loss=mse", "optim.freeze=encoder", "evaluation.final=false"]
    train_in(tmp_path / "head", config(*head))
    second = [*TOO_FAST, f"init_from={tmp_path / 'head'}", "trainer.wise_ft=[0]", "evaluation.final=false"]
    train_in(tmp_path / "mixed", config(*second))
    found = metrics(tmp_path / "mixed")["wise_ft"]["dev"]
    cfg = RunFolder(tmp_path / "mixed").load_config()
    assert found["0"] == pytest.approx(dev_of(tmp_path / "mixed", start_of(cfg)), abs=1e-2)


def test_a_report_that_was_cut_keeps_its_average(
    mixed: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*arguments: Any) -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="power cut"):
        patch.setattr(report, "save_predictions", cut)
        train_in(tmp_path / "run", config(*TOO_FAST, MIXED))
    train_in(tmp_path / "run", config(*TOO_FAST, MIXED), resume=True)
    same_results(mixed, tmp_path / "run")
    assert metrics(mixed)["wise_ft"] == metrics(tmp_path / "run")["wise_ft"]


def test_a_run_that_is_best_at_its_end_stays_as_it_is(config: Config, tmp_path: Path) -> None:
    helpful = [*SHORT_RUN, "optim.lr=1e-3", "trainer.max_epochs=1", "evaluation.final=false"]
    train_in(tmp_path / "usual", config(*helpful))
    train_in(tmp_path / "mixed", config(*helpful, "trainer.wise_ft=[0,0.1]"))
    assert metrics(tmp_path / "mixed")["wise_ft"]["share"] == 1
    same_results(tmp_path / "usual", tmp_path / "mixed")
