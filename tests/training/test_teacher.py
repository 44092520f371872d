from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from sts_lightning.data.collate import Batch
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.companion import Step
from sts_lightning.training.teacher import Teacher
from tests.training.steps import step_alone

FIRST, SECOND = ["a dog", "two cats", "no"], ["the dog", "cats", "yes"]


def step(first: list[str], second: list[str]) -> Step:
    encoder = tiny_bert()
    rows = encoder.prepare(1000, training=True)([first, second], [None, None])
    views = encoder(rows).unflatten(0, (2, -1))
    batch = Batch(rows, 2, None, len(first), texts=[first, second])
    return step_alone(encoder, batch, views.flatten(0, 1), views)


def folder(path: Path, vectors: np.ndarray) -> str:
    path.mkdir()
    (path / "sentences.txt").write_text("\n".join([*FIRST, *SECOND]) + "\n")
    np.save(path / "vectors.npy", vectors)
    return str(path)


def test_similarities_are_the_weighted_mean_of_the_teachers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(6, 4)), rng.normal(size=(6, 7))
    teacher = Teacher([folder(tmp_path / "1", one), folder(tmp_path / "2", two)], weights=[1.0, 3.0])
    teacher.connect(tiny_bert())
    found = teacher(step(FIRST, SECOND))
    for i in range(3):
        for j in range(3):
            cosines = [v[i] @ v[3 + j] / np.linalg.norm(v[i]) / np.linalg.norm(v[3 + j]) for v in (one, two)]
            assert found[i, j].item() == pytest.approx(0.25 * cosines[0] + 0.75 * cosines[1], abs=1e-6)


def test_a_sentence_is_most_similar_to_itself(tmp_path: Path) -> None:
    vectors = np.random.default_rng(1).normal(size=(6, 4))
    teacher = Teacher([folder(tmp_path / "1", vectors)])
    teacher.connect(tiny_bert())
    torch.testing.assert_close(teacher(step(FIRST, FIRST)).diagonal(), torch.ones(3))


def test_its_weights_are_no_part_of_the_run(tmp_path: Path) -> None:
    teacher = Teacher([folder(tmp_path / "1", np.eye(6))])
    teacher.connect(tiny_bert())
    assert not list(teacher.parameters())
    assert not teacher.state_dict()


@pytest.mark.parametrize(
    ("sources", "weights", "message"),
    [
        ([], None, "^sources is empty"),
        (["a", "b"], [1.0], "^weights must be one for each source"),
        (["a"], [0.0], "^weights must be finite, not negative and not all 0"),
        (["a", "b"], [1.0, -1.0], "^weights must be finite"),
    ],
)
def test_rejected_arguments(sources: list[str], weights: list[float] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Teacher(sources, weights)
