"""Speed of this CPU: what is compared with what, and what a rehearsal leaves as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from omegaconf import DictConfig

from sts_lightning.config.constraints import check_config
from sts_lightning.planning import rehearsal
from sts_lightning.planning.cards import Card
from sts_lightning.planning.estimate import estimate
from sts_lightning.planning.rehearsal import LONGER, rehearse

pytestmark = pytest.mark.slow  # each times a model

Config = Callable[..., DictConfig]

SMALL = ["data=toy", "data.train_size=32", "data.dev_size=8", "data.test_size=8", "data.batch_size=8"]
CPU = Card("test", 2**40, 1e10, 1e10, 1e10, "32-true", gpu=False)


def slowness(
    cfg: DictConfig, card: Card, monkeypatch: pytest.MonkeyPatch, forward_token: float = 1e-3
) -> tuple[float, ...]:
    """Slowness of a CPU on which training on some chunks takes 6 s, their dev evaluation 4, a report 2."""
    seconds = iter([6.0, 4.0, LONGER * 2.0])

    def timed(call: Callable[[], object]) -> float:
        call()
        return next(seconds)

    monkeypatch.setattr(rehearsal, "_shortest", timed)
    return rehearse(cfg, card, 64, 0, forward_token).slowness


def test_seconds_are_divided_by_those_of_the_arithmetic(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    cfg = check_config(config("model=tiny_bert", *SMALL))
    once = slowness(cfg, CPU, monkeypatch)
    slower = Card("test", 2**40, 5e9, 5e9, 5e9, "32-true", gpu=False)
    twice = slowness(cfg, slower, monkeypatch, forward_token=2e-3)
    assert twice == pytest.approx([value / 2 for value in once])
    tokens = 4 / once[1] / 1e-3
    assert 2 * 64 < tokens <= 4 * 64  # four chunks of at most 64
    assert 2 / once[2] / 1e-3 == pytest.approx(tokens)


@pytest.fixture
def determinism() -> Iterator[None]:
    own = torch.get_deterministic_debug_mode()
    yield
    torch.set_deterministic_debug_mode(own)


@pytest.mark.usefixtures("determinism")
@pytest.mark.parametrize("mode", ["default", "warn", "error"])
def test_a_rehearsal_leaves_random_numbers_and_determinism(config: Config, mode: str) -> None:
    torch.set_deterministic_debug_mode(mode)
    before = torch.get_deterministic_debug_mode()
    deterministic = "false" if mode == "error" else "true"
    cfg = check_config(config("model=tiny_bert", *SMALL, f"trainer.deterministic={deterministic}"))
    state = torch.get_rng_state()
    assert min(rehearse(cfg, CPU, 64, 0, 1e-3).slowness) > 0
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_deterministic_debug_mode() == before


@pytest.mark.parametrize(
    "overrides",
    [
        ["trainer.micro_batch_size=4"],
        ["trainer.gradient_checkpointing=true"],
        ["precision=bf16-mixed"],
        ["freeze=encoder"],
    ],
)
def test_settings_of_a_step(config: Config, overrides: list[str]) -> None:
    assert (
        min(rehearse(check_config(config("model=tiny_bert", *SMALL, *overrides)), CPU, 64, 0, 1e-3).slowness)
        > 0
    )


def test_what_is_not_rehearsed(config: Config) -> None:
    quantised = config("model=tiny_mistral", "prompt=eol", *SMALL, "model.quantization=4bit")
    assert rehearse(check_config(quantised), CPU, 64, 0, 1e-3) is CPU
    little = Card("test", 1000, 1e10, 1e10, 1e10, gpu=False)
    assert rehearse(check_config(config("model=tiny_bert", *SMALL)), little, 64, 1000, 1e-3) is little


@pytest.mark.slow
def test_a_slower_cpu_takes_longer(config: Config) -> None:
    cfg = config("model=tiny_bert", *SMALL)

    def seconds(*factors: float) -> float:
        slow = (factors[0], factors[1], factors[2])
        card = Card("test", 2**40, 1e10, 1e10, 1e10, "32-true", gpu=False, slowness=slow)
        planned = estimate(cfg, card).seconds
        assert planned is not None
        return planned

    base = seconds(1, 1, 1)
    more = [seconds(2, 1, 1) - base, seconds(1, 2, 1) - base, seconds(1, 1, 2) - base]
    assert min(more) > 0
    assert sum(more) < base  # the rest is the loss and the optimiser
    assert seconds(2, 2, 2) == pytest.approx(base + sum(more))
