"""Two vectors of each sentence, which differ by dropout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from lightning.fabric.utilities import move_data_to_device

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.inference import evaluation_mode, usual_chunk_tokens

SEED = 0
"""Seed of the dropout: that of every measurement, so that measurements differ by the weights alone."""


@torch.no_grad()
def dropout_views(encoder: SentenceEncoder, sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Embed each sentence twice as in evaluation, but with the backbone's dropout.

    The state of torch's random generators and the mode of the encoder are left as they were.

    Args:
        encoder: The encoder.
        sentences: Distinct sentences, N of them.

    Returns:
        Two float32 arrays, each of shape (N, D).
    """
    rows = encoder.prepare(usual_chunk_tokens(encoder.device.type), training=False)([sentences], [None])
    rows = move_data_to_device(rows, encoder.device)
    with evaluation_mode(encoder), _forked(encoder.device):
        torch.manual_seed(SEED)
        encoder.backbone.train()  # a projection of training alone stays away
        first, second = (encoder(rows).float().cpu().numpy() for _ in range(2))
    return first, second


@contextmanager
def _forked(device: torch.device) -> Iterator[None]:
    """Restore the random generators of the CPU and of the device at the end."""
    own = torch.mps.get_rng_state() if device.type == "mps" else None
    try:
        # Every visible GPU, since a seed sets the generators of all of them.
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            yield
    finally:
        if own is not None:
            torch.mps.set_rng_state(own)
