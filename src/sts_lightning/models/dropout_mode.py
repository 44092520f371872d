"""Replacement of the dropout of a forward pass: of its masks, not of where a model drops."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from sts_lightning.models.cpu_attention import attend_in_float32

_active: ContextVar[DropoutMode | None] = ContextVar("dropout_mode", default=None)


class DropoutMode(TorchFunctionMode):
    """Draws the masks of ``F.dropout`` and of attention with dropout in another way than torch.

    Attention with dropout is computed in steps, as torch does on a CPU.
    """

    @abstractmethod
    def drop(self, x: Tensor, rate: float) -> Tensor:
        """Set elements to 0 with a probability in (0, 1], and scale the others."""

    @abstractmethod
    def again(self) -> Self:
        """Return a mode that draws the masks which this one is about to draw."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a function, dropout in its other form."""
        kwargs = kwargs or {}
        if func is F.dropout:
            return self._dropout(*args, **kwargs)
        if func is F.scaled_dot_product_attention:
            return self._attention(func, *args, **kwargs)
        return func(*args, **kwargs)

    def _dropout(self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        return self.drop(input, p) if training and p > 0 else input

    def _attention(
        self,
        fused: Callable[..., Tensor],
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """Compute attention; with dropout in steps, (n, H, L, E) each."""
        if dropout_p == 0:
            options = {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
            return attend_in_float32(fused, query, key, value, attn_mask, **options)
        if enable_gqa:
            groups = query.shape[-3] // key.shape[-3]
            key, value = (part.repeat_interleave(groups, dim=-3) for part in (key, value))
        scores = (
            query @ key.transpose(-2, -1) * (scale if scale is not None else 1 / math.sqrt(query.shape[-1]))
        )
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).min)
        elif attn_mask is not None:
            scores = scores + attn_mask
        return self.drop(scores.softmax(dim=-1).to(value.dtype), dropout_p) @ value


def active_mode() -> DropoutMode | None:
    """Return the mode that draws at present."""
    return _active.get()


@contextmanager
def drawing(mode: DropoutMode | None) -> Iterator[None]:
    """Let a mode draw the masks; without one torch does."""
    if mode is None:
        yield
        return
    token = _active.set(mode)
    try:
        with mode:
            yield
    finally:
        _active.reset(token)


def checkpoint_contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return the contexts of a checkpoint and of its recomputation, which draws the same masks."""
    mode = _active.get()
    return nullcontext(), nullcontext() if mode is None else drawing(mode.again())
