"""Quantised weights, gradient cache and checkpointing of an encoder on a device."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sts_lightning.core.choices import Quantization
from sts_lightning.losses.contrastive import InfoNCELoss
from sts_lightning.losses.pearson import PearsonLoss
from tests.nightly.gpu.steps import decoder, difference, step
from tests.support.sentences import TEXTS

CPU = torch.device("cpu")
MIXED = pytest.mark.parametrize("mixed", [False, True], ids=["float32", "bf16-mixed"])
QUANTISED = pytest.mark.parametrize(("quantization", "tolerance"), [("4bit", 0.5), ("8bit", 0.1)])


def test_vectors_are_those_of_the_cpu(device: torch.device) -> None:
    """The shared prefix, threads and chunk sizes differ between the two."""
    here = decoder(CPU).encode(TEXTS, share_prefix=False)
    np.testing.assert_allclose(decoder(device).encode(TEXTS), here, atol=2e-5)


@QUANTISED
@MIXED
def test_a_quantised_step_is_near_that_of_full_precision(
    quantization: Quantization, tolerance: float, mixed: bool, device: torch.device
) -> None:
    _, exact = step(decoder(CPU, dropout=0.0), InfoNCELoss())
    quantised = decoder(device, dropout=0.0, quantization=quantization)
    _, gradient = step(quantised, InfoNCELoss(), mixed=mixed)
    assert difference(gradient, exact) < tolerance


@QUANTISED
def test_quantised_weights_move_to_the_host_and_back(
    quantization: Quantization, tolerance: float, device: torch.device
) -> None:
    """Lightning moves the model to the host after the first dev evaluation."""
    encoder = decoder(device, quantization=quantization)
    vectors = encoder.encode(TEXTS)
    there = encoder.to(CPU).encode(TEXTS)
    assert difference(torch.from_numpy(there), torch.from_numpy(vectors)) < tolerance
    np.testing.assert_array_equal(encoder.to(device).encode(TEXTS), vectors)


@pytest.mark.parametrize("quantization", ["none", "4bit", "8bit"])
@MIXED
def test_the_gradient_cache_is_exact_with_dropout(
    mixed: bool, quantization: Quantization, device: torch.device
) -> None:
    """Against the same chunks with all activations kept."""
    encoder = decoder(device, quantization=quantization)
    kept = step(encoder, PearsonLoss(), rows_at_a_time=5, mixed=mixed)
    value, gradient = step(encoder, PearsonLoss(), rows_at_a_time=5, recompute=True, mixed=mixed)
    assert value == kept[0]
    assert torch.equal(gradient, kept[1])


@MIXED
def test_the_gradient_cache_is_the_unchunked_step(mixed: bool, device: torch.device) -> None:
    encoder = decoder(device, dropout=0.0)
    _, whole = step(encoder, InfoNCELoss(), mixed=mixed)
    _, cached = step(encoder, InfoNCELoss(), rows_at_a_time=5, recompute=True, mixed=mixed)
    assert difference(cached, whole) < (0.05 if mixed else 1e-5)


@pytest.mark.parametrize("quantization", ["none", "4bit"])
@MIXED
def test_checkpointing_is_exact_with_dropout(
    mixed: bool, quantization: Quantization, device: torch.device
) -> None:
    encoder = decoder(device, quantization=quantization)
    value, gradient = step(encoder, PearsonLoss(), mixed=mixed)
    encoder.checkpoint_layers()
    assert step(encoder, PearsonLoss(), mixed=mixed)[0] == value
    assert torch.equal(step(encoder, PearsonLoss(), mixed=mixed)[1], gradient)
    cached = step(encoder, PearsonLoss(), rows_at_a_time=100, recompute=True, mixed=mixed)
    assert torch.equal(cached[1], gradient)
