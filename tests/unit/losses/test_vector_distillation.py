from __future__ import annotations

import numpy as np
import pytest
import torch

from sts_lightning.losses.vector_distillation import VectorDistillationLoss


def test_is_half_the_squared_distance_of_directions() -> None:
    rng = np.random.default_rng(0)
    student, teacher = rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 4, 5))
    units = [part / np.linalg.norm(part, axis=-1, keepdims=True) for part in (student, teacher)]
    expected = np.square(units[0] - units[1]).sum(-1).mean() / 2
    loss = VectorDistillationLoss()
    value = loss(torch.from_numpy(student), teacher_vectors=torch.from_numpy(teacher))
    assert value.item() == pytest.approx(expected, rel=1e-12)


def test_a_map_leads_to_another_size_and_learns() -> None:
    torch.manual_seed(0)
    loss = VectorDistillationLoss(teacher_dimension=7, dimension=5)
    assert loss.head is not None
    views = torch.randn(2, 40, 5)
    truth = torch.randn(7, 5)
    wanted = views @ truth.T
    optimizer = torch.optim.Adam(loss.parameters(), lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        value = loss(views, teacher_vectors=wanted)
        value.backward()
        optimizer.step()
    assert value.item() < 1e-3


def test_rejects() -> None:
    with pytest.raises(ValueError, match="teacher_dimension must be at least 1, got 0"):
        VectorDistillationLoss(teacher_dimension=0, dimension=4)
    with pytest.raises(ValueError, match="needs teacher_vectors"):
        VectorDistillationLoss()(torch.randn(2, 3, 4))
