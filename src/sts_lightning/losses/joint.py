"""A loss for each part of joint data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from sts_lightning.losses.base import Loss, Needs
from sts_lightning.losses.mix import check_names


class JointLoss(Loss):
    """The loss of the part of joint data that a batch is from.

    Use it with ``data=joint``, of which each batch has examples of one part: InfoNCE for NLI triplets and
    Pearson for scored pairs in one run.

    Args:
        parts: Losses by the names that the data gives its parts.

    Raises:
        ValueError: There are none, or a name is reserved.

    Example:
        >>> loss = JointLoss({"nli": InfoNCELoss(), "sts": PearsonLoss()})
        >>> value = loss(torch.randn(2, 8, 16), 5 * torch.rand(8), part="sts")
    """

    def __init__(self, parts: Mapping[str, Loss] | None = None) -> None:
        super().__init__()
        if not parts:
            raise ValueError("parts is empty; give each part a loss, as in +loss@loss.parts.nli=infonce.")
        check_names("parts", parts)
        self.parts: Any = nn.ModuleDict(parts)  # Any: of losses
        needs = Needs.any(loss.needs for loss in parts.values())
        self.needs = replace(needs, optional_inputs=(*needs.optional_inputs, "part"))

    def forward(
        self, views: Tensor, labels: Tensor | None = None, *, part: str = "", **further: Tensor
    ) -> Tensor:
        """Compute the loss of a part; see `Loss.forward`.

        Args:
            views: Embeddings, (V, B, D).
            labels: Scores or classes, (B,), or None.
            part: Name of the part that the batch is from.
            **further: Arguments that losses take; that of the part gets those that it takes.
        """
        loss = self.of(part)
        value: Tensor = loss(views, labels, **loss.needs.select(further))
        return value

    def metrics(
        self, views: Tensor, labels: Tensor | None = None, *, part: str = "", **inputs: Any
    ) -> dict[str, Tensor]:
        """Return the value under the name of the part, and the quantities of its loss after that."""
        loss, value = self.of(part), self(views, labels, part=part, **inputs)
        of_part = loss.metrics(views, labels, **loss.needs.select(inputs))
        return {part: value, **{f"{part}/{name}": quantity for name, quantity in of_part.items()}}

    def of(self, part: str) -> Loss:
        """Return the loss of a part."""
        if part not in self.parts:
            raise ValueError(f"JointLoss needs part, one of {', '.join(self.parts)}; got {part!r}.")
        loss: Loss = self.parts[part]
        return loss
