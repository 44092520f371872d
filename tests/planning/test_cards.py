"""Cards by name and by memory; time by arithmetic and bandwidth."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
import torch

from sts_lightning.errors import ConfigError
from sts_lightning.planning.cards import BANDWIDTH, CARDS, EFFICIENCY, GIB, find_card, this_machine
from sts_lightning.planning.meter import Cost


def test_a_card_by_name_or_by_memory() -> None:
    assert find_card("RTX4090") is CARDS["rtx4090"]
    plain = find_card("24GB")
    assert plain.memory == 24 * GIB == CARDS["rtx4090"].memory
    assert 21 * GIB < plain.usable < 23.25 * GIB
    assert plain.seconds(Counter({Cost(1, 1, torch.float32): 1})) is None
    cpu = find_card("cpu")
    assert not cpu.gpu and cpu.seconds(Counter({Cost(1, 1, torch.float32): 1})) is None
    with pytest.raises(ConfigError) as caught:
        find_card("rtx")
    assert caught.value.key == "card"
    assert "h100" in str(caught.value.hint)


def test_an_operation_takes_the_longer_of_arithmetic_and_transfer() -> None:
    card = CARDS["a100-80"]
    product, copy = Cost(312 * 10**12, 1, torch.bfloat16), Cost(0, 2039 * 10**9, torch.bfloat16)
    assert card.seconds(Counter({product: 2})) == pytest.approx(2 / EFFICIENCY)
    assert card.seconds(Counter({copy: 1})) == pytest.approx(1 / BANDWIDTH)
    single = card.seconds(Counter({Cost(195 * 10**11, 1, torch.float32): 1}))
    assert single == pytest.approx(1 / EFFICIENCY)


@pytest.mark.parametrize(
    ("name", "memory", "card"),
    [
        ("NVIDIA A100-SXM4-80GB", 80, "a100-80"),
        ("NVIDIA A100-PCIE-40GB", 40, "a100-40"),
        ("NVIDIA A100-SXM4-80GB MIG 2g.20gb", 20, None),
        ("NVIDIA GeForce RTX 4090", 24, "rtx4090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 16, None),
        ("NVIDIA GeForce RTX 3090 Ti", 24, None),
        ("NVIDIA RTX A6000", 48, "a6000"),
        ("Quadro RTX 6000", 24, None),
        ("NVIDIA RTX A1000", 8, None),
        ("NVIDIA A10", 23, "a10"),
        ("NVIDIA L4", 23, "l4"),
        ("NVIDIA L40", 45, None),
        ("NVIDIA L40S", 45, "l40s"),
        ("Tesla T4", 15, "t4"),
        ("NVIDIA T400 4GB", 4, None),
        ("Tesla V100-PCIE-32GB", 32, "v100-32"),
        ("NVIDIA H100 80GB HBM3", 80, "h100"),
        ("NVIDIA H200", 140, "h200"),
    ],
)
def test_the_card_of_this_machine_by_all_words_of_its_name(
    name: str, memory: int, card: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = SimpleNamespace(name=name, total_memory=memory * GIB, major=8)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    found = this_machine()
    assert (found.name, found.memory) == (name, memory * GIB)
    expected = (
        (0.0, 0.0, 0.0) if card is None else (CARDS[card].half, CARDS[card].full, CARDS[card].bandwidth)
    )
    assert (found.half, found.full, found.bandwidth) == expected
