from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from sts_lightning.core.choices import Precision
from sts_lightning.data.collate import Batch
from sts_lightning.export.sentence_transformers import write_sentence_transformers
from sts_lightning.losses.joint import JointLoss
from sts_lightning.losses.pearson import PearsonLoss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.papers.losses.rankcse import RankCSELoss
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.auxiliary.base import Step
from sts_lightning.training.auxiliary.stored_vectors import StoredVectors
from sts_lightning.training.auxiliary.teacher import Teacher, TeacherVectors
from sts_lightning.training.module import STSModule
from tests.support.training_steps import step_alone

FIRST, SECOND = ["a dog", "two cats", "no"], ["the dog", "cats", "yes"]


def step(first: list[str], second: list[str]) -> Step:
    encoder = tiny_bert()
    rows = encoder.prepare(1000, training=True)([first, second], [None, None])
    batch = Batch(rows, 2, None, len(first), texts=[first, second])
    return step_alone(encoder, batch, encoder(rows))


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


def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the number of sentences of each call of an encoder."""
    counts: list[int] = []
    encode = SentenceEncoder.encode

    def counting(self: SentenceEncoder, sentences: Sequence[str], **options: Any) -> np.ndarray:
        counts.append(len(sentences))
        return encode(self, sentences, **options)

    monkeypatch.setattr(SentenceEncoder, "encode", counting)
    return counts


@pytest.mark.parametrize("kind", [Teacher, TeacherVectors])
def test_no_sentence_is_embedded_twice(
    kind: type[Teacher], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connected(seed: int = 0, **settings: Any) -> Teacher:
        teacher = kind(["any"], **settings)
        teacher.connect_by(lambda source: tiny_bert(weights_seed=seed).eval())
        return teacher

    expected = connected()(step(FIRST, SECOND))
    kept = connected(cache_dir=str(tmp_path))
    torch.testing.assert_close(kept(step(FIRST, SECOND)), expected)
    counts = encoded(monkeypatch)
    torch.testing.assert_close(kept(step(FIRST, SECOND)), expected)
    assert not counts
    again = connected(cache_dir=str(tmp_path))
    torch.testing.assert_close(again(step(FIRST, SECOND)), expected)
    assert not counts
    other = connected(seed=1, cache_dir=str(tmp_path))(step(FIRST, SECOND))
    assert sum(counts) == len({*FIRST, *SECOND})
    assert not torch.allclose(other, expected)


def test_the_precision_of_training_is_not_that_of_the_teacher(tmp_path: Path) -> None:
    write_sentence_transformers(tiny_bert(), tmp_path)

    def similarities(precision: Precision | None) -> torch.Tensor:
        teacher = Teacher([str(tmp_path)], precision=precision)
        teacher.connect(tiny_bert())
        with torch.autocast("cpu", torch.bfloat16):
            return teacher(given)

    given = step(FIRST, SECOND)
    first, second = (tiny_bert().eval().encode(texts) for texts in (FIRST, SECOND))
    cosines = torch.tensor(first @ second.T / np.outer(*(np.linalg.norm(v, axis=1) for v in (first, second))))
    torch.testing.assert_close(similarities(None), cosines, atol=1e-6, rtol=0)
    halved = similarities("bf16-true")
    assert 1e-5 < (halved - cosines).abs().max() < 2e-2


def test_a_model_pools_and_cuts_as_it_says(tmp_path: Path) -> None:
    write_sentence_transformers(tiny_bert(pooling="mean", max_length=64), tmp_path)
    long = "a dog " * 40

    def vector(**settings: Any) -> np.ndarray:
        teacher = Teacher([str(tmp_path)], **settings)
        teacher.connect(tiny_bert())
        return teacher.encoders[0].encode([long])[0]

    def expected(**settings: Any) -> np.ndarray:
        encoder = tiny_bert(**settings).eval()
        with torch.no_grad():
            return encoder(encoder.prepare(512, training=True)([[long]], [None]))[0].numpy()

    np.testing.assert_allclose(vector(), expected(pooling="mean", max_length=64), atol=1e-5)
    own = expected(pooling="cls", max_length=16)
    np.testing.assert_allclose(vector(pooling="cls", max_length=16), own, atol=1e-5)


def test_parts_whose_loss_takes_no_teacher_have_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[int] = []
    encode = StoredVectors.encode

    def counted(self: StoredVectors, sentences: Sequence[str]) -> np.ndarray:
        calls.append(len(sentences))
        vectors: np.ndarray = encode(self, sentences)
        return vectors

    monkeypatch.setattr(StoredVectors, "encode", counted)
    teacher = Teacher([folder(tmp_path / "1", np.eye(6))])
    teacher.connect(tiny_bert())
    loss, unused = JointLoss({"nli": RankCSELoss(), "sts": PearsonLoss()}), None
    module = STSModule(tiny_bert(), loss, unused, unused, auxiliary=teacher)  # type: ignore[arg-type]
    module._trainer = SimpleNamespace(current_epoch=0, global_step=0)  # type: ignore[assignment]
    monkeypatch.setattr(module, "_log_step", lambda *_: None)
    batch = step(FIRST, SECOND).batch
    for part, passes in (("sts", []), ("nli", [3, 3])):
        module.training_step(replace(batch, labels=torch.arange(3.0), part=part), 0)
        assert calls == passes
