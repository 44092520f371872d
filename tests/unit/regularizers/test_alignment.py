from __future__ import annotations

import doctest
import math

import numpy as np
import pytest
import torch

from sts_lightning.losses.contrastive import InfoNCELoss
from sts_lightning.regularizers.alignment import Alignment


def views(size: int = 6) -> torch.Tensor:
    return torch.randn(2, size, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_equals_numpy() -> None:
    first, second = views().numpy()
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    expected = -0.7 / 0.1 * ((first * second).sum(axis=1) / lengths).mean()
    assert Alignment(0.7, 0.1)(views()).item() == pytest.approx(expected)


def test_raises_the_weight_of_the_alignment_of_infonce() -> None:
    given = views()
    cosines = torch.nn.functional.cosine_similarity(*given).numpy()
    uniformity = InfoNCELoss()(given).item() + float(np.mean(cosines)) / 0.05
    total = InfoNCELoss()(given) + Alignment(0.5)(given)
    assert total.item() == pytest.approx(-1.5 * float(np.mean(cosines)) / 0.05 + uniformity)


def test_gradient() -> None:
    assert torch.autograd.gradcheck(Alignment(), (views().requires_grad_(),), atol=1e-6)


def test_half_precision_and_declarations() -> None:
    half = torch.randn(2, 6, 4, dtype=torch.bfloat16)
    assert Alignment()(half).dtype == torch.float32
    assert (Alignment().least_views, Alignment().needs_phases) == (2, False)


@pytest.mark.parametrize("name", ["coefficient", "temperature"])
def test_rejects(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be"):
        Alignment(**{name: -1.0})
    with pytest.raises(ValueError, match=f"^{name} must be"):
        Alignment(**{name: math.nan})


def test_the_example_of_the_docstring_runs() -> None:
    names = {"Alignment": Alignment, "torch": torch}
    (example,) = doctest.DocTestFinder(recurse=False).find(Alignment, "example", globs=names)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
