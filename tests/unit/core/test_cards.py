"""Cards by their names, and what the launches of a chunk cost on them."""

from __future__ import annotations

import pytest

from sts_lightning.core.cards import CARDS, UNKNOWN, Card, known_card


@pytest.mark.parametrize(
    ("card", "known"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA A100-SXM4-80GB", "a100-80"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA RTX A6000", "a6000"),
        ("Tesla T4", "t4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L40", None),  # not an L4
        ("NVIDIA A10G", None),  # slower than an A10
    ],
)
def test_a_card_is_known_by_the_name_that_its_driver_gives(card: str, known: str | None) -> None:
    assert known_card(card) == (None if known is None else CARDS[known])


def test_tokens_that_a_card_computes_while_a_chunk_is_launched() -> None:
    """By hand: 32 layers of 5.6 ms at 35 % of 989 TFLOP/s, 42 GFLOP a token; 12 layers of 0.7 ms."""
    assert CARDS["h100"].launch_tokens("bf16-mixed", 32, 7_000_000_000, True) == 1476
    assert CARDS["h100"].launch_tokens("32-true", 32, 7_000_000_000, True) == 100
    assert CARDS["t4"].launch_tokens("32-true", 12, 85_000_000, False) == 46
    expected = CARDS[UNKNOWN].launch_tokens("bf16-mixed", 12, 85_000_000, False)
    assert Card("another", 1).launch_tokens("bf16-mixed", 12, 85_000_000, False) == expected == 951
    assert Card("this CPU", 1, gpu=False).launch_tokens("bf16-mixed", 12, 85_000_000, False) == 0
