from __future__ import annotations

import doctest
import math

import numpy as np
import pytest
import torch

from sts_lightning.regularizers.global_orthogonal import GlobalOrthogonal


def slow(views: np.ndarray) -> float:
    size, dimension = views.shape[1:]
    unit = views / np.linalg.norm(views, axis=2, keepdims=True)
    cosines = [unit[0, i] @ unit[1, j] for i in range(size) for j in range(size) if i != j]
    return float(np.mean(cosines) ** 2 + max(0.0, np.mean(np.square(cosines)) - 1 / dimension))


@pytest.mark.parametrize("size", [2, 9])
@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_equals_the_double_loop(size: int, shift: float) -> None:
    views = torch.randn(3, size, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + shift
    assert GlobalOrthogonal(0.7)(views).item() == pytest.approx(0.7 * slow(views.numpy()))


def test_by_hand() -> None:
    # All rows in one direction: mean 1, mean square 1, in four dimensions.
    assert GlobalOrthogonal()(torch.ones(2, 3, 4)).item() == pytest.approx(1 + 3 / 4)
    # Orthogonal rows: both moments 0, below those of random directions.
    rows = torch.eye(4)
    assert GlobalOrthogonal()(torch.stack([rows, rows])).item() == 0.0


def test_gradient() -> None:
    views = 1 + torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    views.requires_grad_()
    assert torch.autograd.gradcheck(GlobalOrthogonal(), (views,), atol=1e-6)


def test_spreads_vectors_out() -> None:
    views = 1 + torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(0))
    views.requires_grad_()
    term = GlobalOrthogonal()
    before = term(views)
    (gradient,) = torch.autograd.grad(before, views)
    assert term(views - gradient) < before


def test_one_row_and_half_precision() -> None:
    views = torch.randn(2, 1, 4, requires_grad=True)
    value = GlobalOrthogonal()(views)
    assert value.item() == 0.0
    value.backward()
    half = torch.randn(2, 6, 4, dtype=torch.bfloat16)
    assert GlobalOrthogonal()(half).dtype == torch.float32
    torch.testing.assert_close(GlobalOrthogonal()(half), GlobalOrthogonal()(half.float()))


def test_needs_no_phases() -> None:
    assert not GlobalOrthogonal().needs_phases


@pytest.mark.parametrize("coefficient", [-1.0, math.inf, math.nan])
def test_rejects(coefficient: float) -> None:
    with pytest.raises(ValueError, match="coefficient must be finite and not negative"):
        GlobalOrthogonal(coefficient)


def test_the_example_of_the_docstring_runs() -> None:
    names = {"GlobalOrthogonal": GlobalOrthogonal, "torch": torch}
    (example,) = doctest.DocTestFinder(recurse=False).find(GlobalOrthogonal, "example", globs=names)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
