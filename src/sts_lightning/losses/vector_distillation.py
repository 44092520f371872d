"""Distillation of a teacher's vectors."""

from __future__ import annotations

from torch import Tensor, nn

from sts_lightning.core.errors import ConfigError
from sts_lightning.losses.base import Loss, Needs, check, cosine_rows, require


class VectorDistillationLoss(Loss):
    r"""Difference of the directions of the student's and the teacher's vectors of each sentence.

    .. math:: L = \frac{1}{V B} \sum_{v, i} \bigl(1 - \cos(W z_{vi}, t_{vi})\bigr)

    which is half the squared distance of the normalised vectors, the mean squared error that Reimers and
    Gurevych (2020, arXiv 2004.09813) minimise but for scale. W maps the student's D values to the teacher's;
    without W, which needs equal sizes, the student's vectors are compared as they are. Labels are ignored.

    Use it with ``auxiliary=teacher_vectors`` on any text. A vector tells a student more than the similarities
    of a batch (`SimilarityDistillationLoss`), at any batch size; but with W the student's cosines are only as
    good as W is close to a rotation.

    Args:
        teacher_dimension: Size of the teacher's vectors, at least 1, which adds W; null for no W.
        dimension: D, the size of an embedding.

    Raises:
        ValueError: The size is out of range.

    Example:
        >>> loss = VectorDistillationLoss()
        >>> value = loss(torch.randn(2, 8, 16), teacher_vectors=torch.randn(2, 8, 16))
    """

    needs = Needs(
        views=(1, 2, 3),
        labels=("none", "score", "class"),
        required_inputs=("teacher_vectors",),
        min_batch_for_gradient=1,
    )

    def __init__(self, teacher_dimension: int | None = None, dimension: int | None = None) -> None:
        super().__init__()
        self.head: nn.Linear | None = None
        if teacher_dimension is not None:
            check(teacher_dimension >= 1, "be at least 1", teacher_dimension=teacher_dimension)
            if dimension is None:
                raise ValueError("dimension is empty, but teacher_dimension needs it.")
            self.head = nn.Linear(dimension, teacher_dimension, bias=False)

    def forward(
        self, views: Tensor, labels: Tensor | None = None, teacher_vectors: Tensor | None = None
    ) -> Tensor:
        """Compute the loss of views (V, B, D); labels are ignored. See `Loss.forward`.

        Args:
            views: Embeddings of the sentences.
            labels: Ignored.
            teacher_vectors: The teacher's vectors of the same sentences, (V, B, teacher_dimension).

        Raises:
            ConfigError: The teacher's vectors have another size.
        """
        teacher_vectors = require(self, teacher_vectors=teacher_vectors)
        mapped = views if self.head is None else self.head(views.to(self.head.weight.dtype))
        if (given := teacher_vectors.shape[-1]) != mapped.shape[-1]:
            raise ConfigError(
                f"the teachers' vectors have {given} values together, but the loss compares vectors of "
                f"{mapped.shape[-1]}.",
                key="loss.teacher_dimension",
                hint=f"Set teacher_dimension={given} for VectorDistillationLoss.",
            )
        cosines = cosine_rows(mapped.flatten(0, 1), teacher_vectors.flatten(0, 1))
        return (1 - cosines).mean()
