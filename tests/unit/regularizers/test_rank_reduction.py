from __future__ import annotations

import doctest
import math
from typing import Any

import numpy as np
import pytest
import torch

from sts_lightning.regularizers.rank_reduction import RankReduction, von_neumann_entropy


def slow(rows: np.ndarray) -> float:
    """CVPR23-VNE's reference: from the singular values of Z / sqrt(N)."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    eigenvalues = np.linalg.svd(unit / math.sqrt(len(unit)), compute_uv=False) ** 2
    positive = eigenvalues[eigenvalues > 1e-12]
    return float(-(positive * np.log(positive)).sum())


@pytest.mark.parametrize("shape", [(8, 3), (3, 8), (5, 5), (64, 16)])
def test_entropy_equals_the_reference(shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(0).normal(size=shape)
    assert von_neumann_entropy(torch.from_numpy(rows)).item() == pytest.approx(slow(rows), rel=1e-10)


@pytest.mark.parametrize("rank", [3, 16, None])
@pytest.mark.parametrize("shape", [(40, 24), (24, 40)])
def test_float32_is_close_to_float64(shape: tuple[int, int], rank: int | None) -> None:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=shape)
    if rank is not None:
        rows = generator.normal(size=(shape[0], rank)) @ generator.normal(size=(rank, shape[1]))
    found = []
    for dtype in (torch.float64, torch.float32):
        tensor = torch.tensor(rows, dtype=dtype, requires_grad=True)
        entropy = von_neumann_entropy(tensor)
        entropy.backward()
        assert tensor.grad is not None
        assert entropy.dtype == dtype
        found.append((entropy.item(), tensor.grad.double()))
    (value, gradient), (coarse_value, coarse_gradient) = found
    assert value == pytest.approx(slow(rows), rel=1e-8)
    assert coarse_value == pytest.approx(value, abs=1e-5)
    assert (coarse_gradient - gradient).norm() < 1e-4 * gradient.norm()


def test_products_are_in_float32_under_autocast() -> None:
    rows = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", torch.bfloat16):
        entropy = von_neumann_entropy(rows)
    assert entropy.item() == pytest.approx(slow(rows.numpy()), abs=1e-5)


def test_the_phase_is_saved_and_not_read_from_the_device() -> None:
    term = RankReduction(coefficient=0.5, phase1="none", phase2="increase")
    term.enter(2)
    again = RankReduction(coefficient=0.5, phase1="none", phase2="increase")
    assert again(torch.randn(2, 6, 5)).item() == 0
    again.load_state_dict(term.state_dict())
    assert again(torch.randn(2, 6, 5)).item() < 0
    again.to("meta")  # where a tensor has no value
    assert again(torch.randn(2, 6, 5)).item() < 0


def test_entropy_by_hand() -> None:
    assert von_neumann_entropy(torch.eye(4)).item() == pytest.approx(math.log(4))
    assert von_neumann_entropy(torch.ones(5, 3)).item() == pytest.approx(0.0, abs=1e-6)
    assert von_neumann_entropy(torch.tensor([[1.0, 0], [1, 0], [0, 1], [0, 1]])).item() == pytest.approx(
        math.log(2)
    )


@pytest.mark.parametrize("shape", [(6, 3), (3, 6)])
def test_gradient(shape: tuple[int, int]) -> None:
    rows = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(von_neumann_entropy, (rows,))


def test_gradient_is_finite_where_eigenvalues_coincide() -> None:
    for rows in (torch.eye(4), torch.ones(4, 3), torch.zeros(4, 3)):
        rows.requires_grad_()
        von_neumann_entropy(rows).backward()
        assert rows.grad is not None
        assert rows.grad.isfinite().all()


def test_a_positive_coefficient_lowers_the_entropy() -> None:
    # The equation as printed in the paper has the opposite sign.
    views = torch.randn(2, 12, 6, generator=torch.Generator().manual_seed(0), requires_grad=True)
    before = von_neumann_entropy(views.flatten(0, 1))
    (gradient,) = torch.autograd.grad(RankReduction(coefficient=1.0)(views), views)
    after = von_neumann_entropy((views - 0.5 * gradient).flatten(0, 1))
    assert after < before


def test_rows_that_are_read() -> None:
    views = torch.randn(3, 6, 5, generator=torch.Generator().manual_seed(0))

    def value(which: Any) -> float:
        return float(RankReduction(coefficient=1.0, views=which)(views))

    first, second = slow(views[0].numpy()), slow(views[1].numpy())
    assert value("first") == pytest.approx(first, rel=1e-5)
    assert value("second") == pytest.approx(second, rel=1e-5)
    assert value("each") == pytest.approx((first + second) / 2, rel=1e-5)
    assert value("both") == pytest.approx(slow(views[:2].reshape(12, 5).numpy()), rel=1e-5)


def test_direction_of_each_phase() -> None:
    views = torch.randn(2, 6, 5)
    entropy = von_neumann_entropy(views.flatten(0, 1)).item()
    term = RankReduction(coefficient=0.5, phase1="none", phase2="increase")
    assert term.needs_phases
    assert term(views).item() == 0.0
    term.enter(2)
    assert term(views).item() == pytest.approx(-0.5 * entropy, rel=1e-5)
    assert not RankReduction().needs_phases


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"coefficient": -1e-3}, "to raise the rank, set phase1=increase"),
        ({"views": "third"}, "views must be one of first, second, both, each"),
        ({"phase2": "down"}, "phase2 must be one of decrease, increase, none"),
    ],
)
def test_rejects(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RankReduction(**settings)


def test_the_example_of_the_docstring_runs() -> None:
    names = {"RankReduction": RankReduction, "torch": torch}
    (example,) = doctest.DocTestFinder(recurse=False).find(RankReduction, "example", globs=names)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
