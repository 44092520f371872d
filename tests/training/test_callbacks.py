"""Random state and throughput on a GPU, with stand-ins for CUDA."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sts_lightning.training.callbacks import RandomState, Throughput

CUDA = torch.device("cuda", 1)


class Generators:
    """Generators of two cards; asking for those of all fails, as it does on a machine with fewer cards."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.states = {0: torch.tensor([10]), 1: torch.tensor([11])}
        monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: self.states[device.index])
        monkeypatch.setattr(torch.cuda, "set_rng_state", self.set)

    def set(self, state: torch.Tensor, device: torch.device) -> None:
        self.states[int(device.index)] = state


def trainer(device: torch.device) -> Any:
    return SimpleNamespace(strategy=SimpleNamespace(root_device=device), global_rank=0)


def started(device: torch.device) -> RandomState:
    callback = RandomState()
    callback.setup(trainer(device), SimpleNamespace(), "fit")  # type: ignore[arg-type]
    return callback


def resume(device: torch.device, state: dict[str, Any]) -> None:
    callback = started(device)
    callback.load_state_dict(state)
    callback.on_train_batch_start(trainer(device), SimpleNamespace(), None, 0)  # type: ignore[arg-type]


def test_the_state_is_that_of_the_own_card(monkeypatch: pytest.MonkeyPatch) -> None:
    generators = Generators(monkeypatch)
    state = started(CUDA).state_dict()
    assert state["processes"][0]["cuda"] == 11
    resume(torch.device("cuda", 0), state)  # another machine, where the run has another card
    assert generators.states == {0: 11, 1: 11}


@pytest.mark.parametrize(("stored", "expected"), [([5, 6, 7], 6), ([5], 5), ([], 11)])
def test_checkpoints_of_all_cards_are_read(
    stored: list[int], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generators = Generators(monkeypatch)
    old = {"cpu": torch.get_rng_state(), "cuda": [torch.tensor([value]) for value in stored]}
    resume(CUDA, {"processes": [old]})
    assert generators.states == {0: 10, 1: expected}


def test_a_run_on_a_gpu_resumes_on_a_cpu() -> None:
    state = {"cpu": torch.get_rng_state(), "cuda": torch.zeros(16, dtype=torch.uint8)}
    torch.rand(3)
    resume(torch.device("cpu"), {"processes": [state]})
    assert torch.equal(torch.get_rng_state(), state["cpu"])


class Event:
    """A CUDA event whose time has come once the GPU's clock has passed it."""

    gpu_time = 0.0
    issued = 0.0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.time = Event.issued

    def query(self) -> bool:
        return Event.gpu_time >= self.time

    def synchronize(self) -> None:
        Event.gpu_time = max(Event.gpu_time, self.time)

    def elapsed_time(self, end: Event) -> float:
        return 1000 * (end.time - self.time)


def test_a_step_on_a_gpu_lasts_until_the_gpu_has_done_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's part of a step takes no time here, the GPU's two seconds."""
    monkeypatch.setattr(torch.cuda, "Event", Event)
    logged: dict[str, float] = {}
    module: Any = SimpleNamespace(device=CUDA, log=lambda name, value, **_: logged.update({name: value}))
    batch: Any = SimpleNamespace(rows=SimpleNamespace(num_tokens=50))
    fake: Any = SimpleNamespace(world_size=1)
    callback = Throughput()
    waited = []
    for step in range(3):
        Event.issued = 3.0 * step
        callback.on_train_batch_start(fake, module, batch, step)
        Event.issued += 2.0
        before = Event.gpu_time
        callback.on_train_batch_end(fake, module, None, batch, step)
        waited.append(Event.gpu_time - before)
        assert logged["steps_per_second"] == pytest.approx(0.5)
        assert logged["tokens_per_second"] == pytest.approx(25.0)
    assert waited == [2.0, 0.0, 0.0]  # only the first step is waited for
    assert len(callback.recent) == 1
    Event.gpu_time = 100.0
    callback.on_train_batch_start(fake, module, batch, 3)
    callback.on_train_batch_end(fake, module, None, batch, 3)
    assert len(callback.recent) == 4
