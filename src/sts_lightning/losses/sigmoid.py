"""The sigmoid contrastive loss of SigLIP."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sts_lightning.losses.base import Loss, Needs, check, check_positive, cosine_matrix, false_negatives


class SigmoidLoss(Loss):
    r"""Binary classification of every two sentences as positive or negative (SigLIP, Zhai et al. 2023).

    .. math:: L = -\frac1B \sum_i \sum_j \log \sigma\bigl(z_{ij} (e^{t'} \cos(z_i, z_j^+) + b)\bigr), \quad
        z_{ij} = \begin{cases} 1 & i = j \\ -1 & i \neq j \end{cases}

    with :math:`\sigma` the logistic function. The logarithm t' of the scale and the bias b are learned
    together with the encoder. The bias starts low since a batch has many more negatives than positives. With
    more than two views all hard negatives are further negatives of every anchor, as in `InfoNCELoss`. Copies
    of the positive or the anchor have no term (``mask_repeats``). ``observed`` has scale and bias.

    Use it in place of `InfoNCELoss` when the number of negatives should matter little: each pair is judged by
    itself, without a softmax over the batch. ``optim.head_lr`` sets the learning rate of scale and bias,
    which move little at the rate of an encoder.

    Args:
        scale: exp(t') at the start, positive; the inverse of a temperature. SigLIP: 10.
        bias: b at the start, -log(B - 1) for a batch of B = 64, where one of B candidates is right.
            SigLIP: -10, for batches of 32,768.
        mask_repeats: Whether to leave out candidates with the text of the anchor or of a positive of it.

    Example:
        >>> loss = SigmoidLoss()
        >>> value = loss(torch.randn(2, 8, 16))
    """

    needs = Needs(views=(2, 3), more_views=True, labels=("none",), optional_inputs=("sentence_ids",))

    def __init__(self, scale: float = 10.0, bias: float = -4.143, mask_repeats: bool = True) -> None:
        super().__init__()
        check_positive(scale=scale)
        check(math.isfinite(bias), "be finite", bias=bias)
        self.mask_repeats = mask_repeats
        self.log_scale = nn.Parameter(torch.tensor([math.log(scale)]))
        self.bias = nn.Parameter(torch.tensor([float(bias)]))

    def forward(
        self, views: Tensor, labels: Tensor | None = None, sentence_ids: Tensor | None = None
    ) -> Tensor:
        """Compute the loss of views (V, B, D), V at least 2; labels are ignored. See `Loss.forward`.

        Args:
            views: Anchors, positives[, hard negatives ...].
            labels: Ignored.
            sentence_ids: Numbers of the sentences, see `false_negatives`; None leaves out nothing.
        """
        size = views.shape[1]
        cosines = cosine_matrix(views[0], views[1:].flatten(0, 1))  # (B, (V - 1) B)
        signs = 2 * torch.eye(size, cosines.shape[1], device=cosines.device, dtype=cosines.dtype) - 1
        terms = F.logsigmoid(signs * self.logits(cosines))
        repeated = false_negatives(views, sentence_ids if self.mask_repeats else None)
        return -terms.masked_fill(repeated, 0.0).sum() / size

    def logits(self, cosines: Tensor) -> Tensor:
        """Scale and shift cosines of any shape, and observe scale and bias."""
        scale, bias = self.log_scale.exp().to(cosines.dtype), self.bias.to(cosines.dtype)
        self.observed = {"scale": scale.detach(), "bias": bias.detach().clone()}
        return scale * cosines + bias
