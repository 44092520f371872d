"""Weighted sums of weights."""

from __future__ import annotations

import torch

from sts_lightning.workflows.average import weighted_sum


def weights(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "a": torch.randn(3, 2, generator=generator),
        "b": torch.randn(4, generator=generator).bfloat16(),
        "positions": torch.arange(3),
    }


def test_by_hand() -> None:
    one, two = {"a": torch.tensor([1.0, 4.0])}, {"a": torch.tensor([3.0, 0.0])}
    assert weighted_sum([one, two], [0.5, 0.5])["a"].tolist() == [2.0, 2.0]
    assert weighted_sum([one, two], [0.25, 0.75])["a"].tolist() == [2.5, 1.0]


def test_the_mean_of_copies_is_the_copy() -> None:
    found = weighted_sum([weights(0)] * 3, [1 / 3] * 3)
    for name, value in weights(0).items():
        assert torch.equal(found[name], value)
        assert found[name].dtype == value.dtype


def test_the_terms_are_summed_in_float64() -> None:
    parts = [weights(seed) for seed in range(50)]
    expected = torch.stack([part["b"].double() for part in parts]).mean(dim=0).bfloat16()
    assert torch.equal(weighted_sum(parts, [1 / 50] * 50)["b"], expected)
