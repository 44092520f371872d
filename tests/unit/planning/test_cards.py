"""Cards by name and by memory; time by arithmetic and bandwidth."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
import torch

from sts_lightning.core.errors import ConfigError
from sts_lightning.planning.gpus import BANDWIDTH, EFFICIENCY, GIB, GPUS, find_device, this_machine
from sts_lightning.planning.meter import Cost


def test_a_card_by_name_or_by_memory() -> None:
    assert find_device("RTX4090") is GPUS["rtx4090"]
    plain = find_device("24GB")
    assert plain.memory == 24 * GIB == GPUS["rtx4090"].memory
    assert 21 * GIB < plain.usable < 23.25 * GIB
    assert plain.bandwidth == 0  # and so no time
    cpu = find_device("cpu")
    assert not cpu.gpu and cpu.bandwidth == 0
    with pytest.raises(ConfigError) as caught:
        find_device("rtx")
    assert caught.value.key == "card"
    assert "h100" in str(caught.value.hint)


def test_an_operation_takes_the_longer_of_arithmetic_and_transfer() -> None:
    card = GPUS["a100-80"]
    product, copy = Cost(312 * 10**12, 1, torch.bfloat16), Cost(0, 2039 * 10**9, torch.bfloat16)
    assert card.seconds(Counter({product: 2})) == pytest.approx(2 / EFFICIENCY)
    assert card.seconds(Counter({copy: 1})) == pytest.approx(1 / BANDWIDTH)
    single = card.seconds(Counter({Cost(195 * 10**11, 1, torch.float32): 1}))
    assert single == pytest.approx(1 / EFFICIENCY)


@pytest.mark.parametrize(
    ("major", "precision", "free", "reserved", "memory"),
    [
        (8, "bf16-mixed", 22.5, 0, 23),  # our context alone
        (7, "32-true", 15.5, 2, 18.25),  # 23 - 15.5 - 2 - 0.75 = 4.75 GiB of another process
        (8, "bf16-mixed", 15.4, 2, 18),  # and a little more, which is rounded
    ],
)
def test_the_card_of_this_machine_has_the_memory_that_others_leave_and_no_time(
    major: int, precision: str, free: float, reserved: int, memory: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = SimpleNamespace(name="NVIDIA A10", total_memory=23 * GIB, major=major)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (int(free * GIB), 23 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: reserved * GIB)
    found = this_machine()
    assert (found.name, found.memory, found.precision) == ("NVIDIA A10", int(memory * GIB), precision)
    assert found.gpu and found.bandwidth == 0
