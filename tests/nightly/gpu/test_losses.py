"""Every loss in the precision and under the determinism of training."""

from __future__ import annotations

import math

import pytest
import torch

from sts_lightning.losses import all_losses
from tests.nightly.gpu.steps import decoder, step
from tests.support.loss_cases import batch, further, make


@pytest.mark.parametrize("stem", sorted(all_losses()))
def test_forward_and_backward_in_bf16_mixed_are_finite_and_repeatable(
    stem: str, device: torch.device
) -> None:
    encoder = decoder(device)
    loss = make(stem, encoder.dimension).float()
    loss.to(device)
    value, gradient = step(encoder, loss, mixed=True)
    assert math.isfinite(value)
    assert gradient.isfinite().all()
    assert gradient.any()
    again, gradient_again = step(encoder, loss, mixed=True)
    assert value == again
    assert torch.equal(gradient, gradient_again)


@pytest.mark.parametrize("stem", sorted(all_losses()))
def test_the_loss_is_that_of_the_cpu(stem: str, device: torch.device) -> None:
    """In float64 on the CPU against float32 on the device."""
    loss = make(stem)
    views, labels = batch(loss, 9)
    views.requires_grad_()
    loss(views, labels, **further(loss, 9)).backward()
    there = make(stem).float().to(device)
    moved = views.detach().float().to(device).requires_grad_()
    kind = torch.float32 if labels is not None and labels.is_floating_point() else torch.int64
    more = further(there, 9)
    more = {name: value if name == "part" else value.float().to(device) for name, value in more.items()}
    there(moved, None if labels is None else labels.to(device, kind), **more).backward()
    assert views.grad is not None
    assert moved.grad is not None
    torch.testing.assert_close(moved.grad.cpu().double(), views.grad, rtol=1e-3, atol=1e-5)
