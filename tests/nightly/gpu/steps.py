"""One forward and backward pass, as training takes it."""

from __future__ import annotations

from typing import Any

import torch
from peft import LoraConfig
from torch import Tensor

from sts_lightning.losses.base import Loss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_decoders import tiny_mistral
from tests.support.loss_cases import further
from tests.support.sentences import TEXTS

TEMPLATE = 'This sentence : "{sentence}" means in one word:"'


def lora(dropout: float = 0.1) -> LoraConfig:
    return LoraConfig(
        task_type="FEATURE_EXTRACTION", r=4, lora_alpha=8, lora_dropout=dropout, target_modules="all-linear"
    )


def decoder(device: torch.device, dropout: float = 0.1, **settings: Any) -> SentenceEncoder:
    """Build a decoder with LoRA whose second factor is not zero, so that every factor has a gradient."""
    if settings.get("quantization", "none") != "none":
        settings["device"] = str(device)
    torch.manual_seed(0)
    encoder = tiny_mistral(
        hidden_size=64, heads=4, template=TEMPLATE, pooling="last_token", adapter=lora(dropout), **settings
    )
    generator = torch.Generator().manual_seed(1)
    for name, parameter in encoder.named_parameters():
        if "lora_B" in name:
            drawn = 0.1 * torch.randn(parameter.shape, generator=generator)
            parameter.data.copy_(drawn)
    return encoder.to(device).train()


def step(
    encoder: SentenceEncoder,
    loss: Loss,
    rows_at_a_time: int | None = None,
    recompute: bool = False,
    mixed: bool = False,
) -> tuple[float, Tensor]:
    """Return the loss, and the gradient of the encoder on the CPU."""
    device, views = encoder.device, max(loss.needs.views)
    texts = [TEXTS[number:] + TEXTS[:number] for number in range(views)]
    rows = encoder.prepare(10_000, training=True)(texts, [None] * views)
    if rows_at_a_time is not None:
        rows = rows.limited(rows_at_a_time)
    rows.chunks = [{name: ids.to(device) for name, ids in chunk.items()} for chunk in rows.chunks]
    labels = None
    if loss.needs.labels[0] == "score":
        labels = torch.linspace(0, 5, len(TEXTS), device=device)
    elif loss.needs.labels[0] == "class":
        labels = torch.arange(len(TEXTS), device=device) % 3
    encoder.zero_grad()
    loss.zero_grad()
    torch.manual_seed(2)
    # As Lightning does: each use of a weight is converted by itself, and its gradients are summed in float32.
    with torch.autocast(device.type, torch.bfloat16, enabled=mixed, cache_enabled=False):
        embedded = encoder(rows, 0 if recompute else None).unflatten(0, (views, -1))
        with torch.autocast(device.type, enabled=False):
            more = further(loss, len(TEXTS), dimension=encoder.dimension)
            given = {
                name: value if name == "part" else value.float().to(device) for name, value in more.items()
            }
            value = loss(embedded, labels, **given)
    value.backward()
    gradients = [parameter.grad for parameter in encoder.parameters() if parameter.grad is not None]
    return value.item(), torch.cat([gradient.flatten().cpu() for gradient in gradients])


def difference(one: Tensor, two: Tensor) -> float:
    """Length of the difference as a fraction of the second one's length."""
    return float((one - two).norm() / two.norm())
