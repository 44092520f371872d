"""Every loss, regularizer and a queue on an emulated GPU, under the determinism of training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from lightning.fabric.utilities import move_data_to_device
from torch import Tensor

from sts_lightning.losses import all_losses
from sts_lightning.papers.auxiliary.momentum_queue import MomentumQueue
from sts_lightning.papers.auxiliary.second_encoder import first_sentences
from sts_lightning.regularizers.alignment import Alignment
from sts_lightning.regularizers.base import Regularizer
from sts_lightning.regularizers.global_orthogonal import GlobalOrthogonal
from sts_lightning.regularizers.rank_reduction import RankReduction
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.support.emulated_gpu import EmulatedGPU, emulated_gpu
from tests.support.loss_cases import batch, further, make


@pytest.fixture
def gpu() -> Iterator[EmulatedGPU]:
    with emulated_gpu() as device:
        torch.use_deterministic_algorithms(True)
        yield device


VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((stem, {}) for stem in sorted(all_losses())),
    ("gist", {"guide": "teacher"}),
    ("ibn", {"equal_sentences": "positives"}),
    ("infonce", {"positive_negatives": True}),
    ("rankcse", {"distillation": "listnet", "positive_in_lists": False}),
    ("similarity_distillation", {"comparison": "mse"}),
    *(("mse", {"features": features}) for features in ("u_v", "diff", "cosine")),
    *(("mse", {"clamp": clamp}) for clamp in ("left", "both")),
]
"""Every loss with its defaults, and the settings by which one computes something else."""


@pytest.mark.parametrize(("stem", "settings"), VARIANTS)
def test_a_loss_stays_on_its_device(stem: str, settings: dict[str, Any], gpu: EmulatedGPU) -> None:
    """With the gradient of the CPU, and without waiting."""
    gradients = []
    for device in ("cpu", "cuda"):
        loss = make(stem, **settings).to(device)
        views, labels = batch(loss, 9)
        there = views.to(device).requires_grad_()
        more = further(loss, 9)
        more = {name: value if name == "part" else value.to(device) for name, value in more.items()}
        if "sentence_ids" in loss.needs.inputs:
            more["sentence_ids"] = (torch.arange(9) % 7).expand(len(views), 9).to(device)
        moved = None if labels is None else labels.to(device)
        gpu.recording = True
        loss(there, moved, **more).backward()
        gpu.recording = False
        assert there.grad is not None
        gradients.append(there.grad.cpu())
    torch.testing.assert_close(gradients[1], gradients[0])
    assert gpu.synchronisations == []


@pytest.mark.parametrize("regularizer", [RankReduction(), GlobalOrthogonal(), Alignment()])
def test_a_regularizer_stays_on_its_device(regularizer: Regularizer, gpu: EmulatedGPU) -> None:
    """Without waiting, but for the eigenvalues, whose solver reports to the host whether it has converged."""
    views = torch.rand(2, 8, 16)

    def gradient(device: str) -> Tensor:
        moved = views.to(device).requires_grad_()
        regularizer.to(device)
        gpu.recording = True
        regularizer(moved).backward()
        gpu.recording = False
        assert moved.grad is not None
        return moved.grad.cpu()

    torch.testing.assert_close(gradient("cuda"), gradient("cpu"))
    assert [wait for wait in gpu.synchronisations if "_linalg_eigh" not in wait] == []
    assert bool(gpu.synchronisations) == isinstance(regularizer, RankReduction)


def test_a_queue_stays_on_its_device(gpu: EmulatedGPU) -> None:
    """Filled, overfull, and read from a checkpoint."""
    queue, resumed = MomentumQueue(3, 0.9), MomentumQueue(3, 0.9)
    for module in (queue, resumed):
        module.connect(tiny_bert())
        module.to("cuda")
    vectors = torch.arange(4.0)[:, None].expand(4, 32).to("cuda")
    gpu.recording = True
    seen = [queue.negatives().clone()]
    for row in vectors:
        queue.push(row[None])
        seen.append(queue.negatives().clone())
    gpu.recording = False
    assert gpu.synchronisations == []
    assert [rows[:, 0].tolist() for rows in seen] == [[], [0], [0, 1], [0, 1, 2], [1, 2, 3]]
    other = MomentumQueue(3, 0.9)
    other.connect(tiny_bert())
    other.push(vectors[:2].cpu())
    resumed.load_state_dict(other.state_dict())
    assert resumed.negatives()[:, 0].tolist() == [0, 1]


def test_a_queue_embeds_the_first_view_without_waiting(gpu: EmulatedGPU) -> None:
    encoder = tiny_bert()
    rows = encoder.prepare(16, training=True)([["a b c", "d e", "f"], ["g", "h i j", "k"]], [None, None])
    moved = move_data_to_device(rows, torch.device("cuda"))
    encoder.eval().to("cuda")
    gpu.recording = True
    with torch.no_grad():
        vectors = encoder(first_sentences(moved, 3))
    gpu.recording = False
    assert gpu.synchronisations == []
    with torch.no_grad():
        torch.testing.assert_close(vectors.cpu(), encoder.cpu()(rows)[:3])
