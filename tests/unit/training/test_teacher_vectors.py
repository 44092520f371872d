from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from sts_lightning.core.errors import ConfigError
from sts_lightning.losses.mix import MixLoss
from sts_lightning.losses.vector_distillation import VectorDistillationLoss
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.auxiliary.teacher import Teacher, TeacherVectors
from tests.unit.training.test_teacher import FIRST, SECOND, folder, step


def connected(tmp_path: Path, kind: type[Teacher]) -> Teacher:
    rng = np.random.default_rng(0)
    for name, size in (("1", 4), ("2", 7)):
        if not (tmp_path / name).exists():
            folder(tmp_path / name, rng.normal(size=(6, size)))
    teacher = kind([str(tmp_path / "1"), str(tmp_path / "2")], weights=[1.0, 3.0])
    teacher.connect(tiny_bert())
    return teacher


def test_products_are_the_weighted_mean_of_the_cosines(tmp_path: Path) -> None:
    vectors = connected(tmp_path, TeacherVectors)(step(FIRST, SECOND))
    assert vectors.shape == (2, 3, 11)
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(2, 3))
    similarities = connected(tmp_path, Teacher)(step(FIRST, SECOND))
    torch.testing.assert_close(vectors[0] @ vectors[1].T, similarities)


def test_a_student_learns_the_vectors(tmp_path: Path) -> None:
    source = folder(tmp_path / "1", np.random.default_rng(1).normal(size=(6, 32)))
    teacher = TeacherVectors([source])
    teacher.connect(tiny_bert())
    given = step(FIRST, SECOND)
    expected = F.normalize(teacher(given), dim=-1)
    first = VectorDistillationLoss()(given.views, teacher_vectors=expected)
    first.backward()
    gradients = [part.grad for part in given.encoder.parameters() if part.grad is not None]
    with torch.no_grad():
        for part in given.encoder.parameters():
            if part.grad is not None:
                part -= 0.02 * part.grad
    again = given.encoder(given.rows).unflatten(0, (2, -1))
    assert gradients
    assert VectorDistillationLoss()(again, teacher_vectors=expected) < first


def test_another_size_is_rejected(tmp_path: Path) -> None:
    given, views = connected(tmp_path, TeacherVectors)(step(FIRST, SECOND)), torch.randn(2, 3, 48)
    for loss in (VectorDistillationLoss(), MixLoss({"a": VectorDistillationLoss(5, 48)}, {"a": 1.0})):
        with pytest.raises(ConfigError, match="have 11 values together") as caught:
            loss(views, teacher_vectors=given)
        assert caught.value.key == "loss.teacher_dimension"
    assert VectorDistillationLoss(11, 48)(views, teacher_vectors=given).isfinite()
