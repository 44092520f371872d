"""The sigmoid contrastive loss of SigLIP."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sts_lightning.losses.base import Loss, cosine_matrix


class SigmoidLoss(Loss):
    r"""Binary classification of every two sentences as positive or negative (SigLIP, Zhai et al. 2023).

    .. math:: L = -\frac1B \sum_i \sum_j \log \sigma\bigl(z_{ij} (e^{t'} \cos(z_i, z_j^+) + b)\bigr), \quad
        z_{ij} = \begin{cases} 1 & i = j \\ -1 & i \neq j \end{cases}

    with :math:`\sigma` the logistic function. The logarithm t' of the scale and the bias b are learned
    together with the encoder. The bias starts low since a batch has many more negatives than positives. With
    three views all hard negatives are further negatives of every anchor, as in `InfoNCELoss`. ``observed``
    has scale and bias.

    Use it in place of `InfoNCELoss` when the number of negatives should matter little: each pair is judged by
    itself, without a softmax over the batch. ``optim.head_lr`` sets the learning rate of scale and bias,
    which move little at the rate of an encoder.

    Args:
        scale: exp(t') at the start, positive; the inverse of a temperature. SigLIP: 10.
        bias: b at the start. SigLIP: -10.

    Example:
        >>> loss = SigmoidLoss()
        >>> value = loss(torch.randn(2, 8, 16))
    """

    views = (2, 3)
    labels = ("none",)

    def __init__(self, scale: float = 10.0, bias: float = -10.0) -> None:
        super().__init__()
        if not 0 < scale < math.inf:
            raise ValueError(f"scale must be positive and finite, got {scale}.")
        if not math.isfinite(bias):
            raise ValueError(f"bias must be finite, got {bias}.")
        # Of one element each, since a scalar cannot be divided among processes (trainer.strategy=fsdp).
        self.log_scale = nn.Parameter(torch.tensor([math.log(scale)]))
        self.bias = nn.Parameter(torch.tensor([float(bias)]))

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        """Compute the loss of views (2 or 3, B, D); labels are ignored. See `Loss.forward`."""
        size = views.shape[1]
        cosines = cosine_matrix(views[0], views[1:].flatten(0, 1))  # (B, B) or (B, 2 B)
        scale, bias = self.log_scale.exp().to(cosines.dtype), self.bias.to(cosines.dtype)
        self.observed = {"scale": scale.detach(), "bias": bias.detach().clone()}
        signs = 2 * torch.eye(size, cosines.shape[1], device=cosines.device, dtype=cosines.dtype) - 1
        return -F.logsigmoid(signs * (scale * cosines + bias)).sum() / size
