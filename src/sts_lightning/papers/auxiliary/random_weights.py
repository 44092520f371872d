"""Random weights that auxiliary models of the papers' code start from."""

from __future__ import annotations

from typing import Any

import torch
from transformers import PreTrainedModel

SEED = 0
"""Seed of the weights, the same in all processes and in a resumed run."""


def random_weights(backbone: PreTrainedModel) -> PreTrainedModel:
    """Build a model like another one, with the random weights that its pre-training would start from.

    The global random state is left unchanged.

    Args:
        backbone: Model without adapter, whose weights are left unchanged.
    """
    device = "meta" if backbone.device.type == "meta" else "cpu"
    with torch.random.fork_rng(devices=[]), torch.device(device):
        torch.default_generator.manual_seed(SEED)
        fresh: Any = type(backbone)(backbone.config)
    if getattr(backbone, "pooler", fresh) is None:  # BERT's class adds one by default
        fresh.pooler = None
    assert isinstance(fresh, PreTrainedModel)
    return fresh
