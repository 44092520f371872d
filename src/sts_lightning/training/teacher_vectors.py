"""Vectors of teacher encoders, which a loss distils."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from sts_lightning.training.companion import Step
from sts_lightning.training.teacher import Teacher


class TeacherVectors(Teacher):
    r"""Vectors of a batch's sentences by frozen encoders, joined to one for each sentence.

    .. math:: t(x) = \bigl[\sqrt{w_1}\, \hat f_1(x); \sqrt{w_2}\, \hat f_2(x); \dots\bigr]

    with :math:`\hat f_k` the normalised vector of teacher k, so that :math:`t(x) \cdot t(y)` is the weighted
    mean of the teachers' cosines, which `Teacher` supplies instead. All views are embedded, each sentence as
    it is in the data.

    Use it with `VectorDistillationLoss`. See `Teacher` for the arguments.
    """

    provides = "teacher_vectors"

    @property
    def dimension(self) -> int:
        """Size of a joined vector, known after `connect`."""
        return sum(encoder.dimension for encoder in self.encoders)

    @torch.no_grad()
    def forward(self, step: Step) -> Tensor:
        """Compute the joined vectors of the whole batch, (V, B, dimension) in float32."""
        parts = [
            weight**0.5 * F.normalize(self.vectors(number, step, step.batch.num_views), dim=-1)
            for number, weight in enumerate(self.weights)
        ]
        return torch.cat(parts, dim=-1)
