"""The layers on top of the pooled vector."""

from __future__ import annotations

from typing import Literal

from torch import nn
from transformers import PretrainedConfig

Projection = Literal["none", "train", "always", "batch_norm"]
"""Layers on top of the pooled vector: none; a linear one with tanh, in training alone (``train``) or in
evaluation too (``always``); or a wider network with batch norms, in training alone."""


def make_projection(config: PretrainedConfig, projection: Projection) -> nn.Sequential:
    """Build the layers, with the initial scale of the backbone's layers.

    ``batch_norm`` is InfoCSE's: linear to 2 D, batch norm, ReLU, linear to D, batch norm without scale and
    shift, the linear layers without bias (`its code
    <https://github.com/caskcsg/sentemb/blob/5eeec55103c1da738761bf8c6a9c085c6ad1c9a1/InfoCSE/infocse/models_cls_mlm.py#L35-L51>`_).
    Means and variances are over all views of the examples of a process.

    Args:
        config: Configuration of the backbone, with its width D.
        projection: Type of layers, not ``none``.
    """
    size = config.hidden_size
    if projection == "batch_norm":
        layers = nn.Sequential(
            nn.Linear(size, 2 * size, bias=False),
            nn.BatchNorm1d(2 * size),
            nn.ReLU(),
            nn.Linear(2 * size, size, bias=False),
            nn.BatchNorm1d(size, affine=False),
        )
    else:
        layers = nn.Sequential(nn.Linear(size, size), nn.Tanh())
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=getattr(config, "initializer_range", 0.02))
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return layers
