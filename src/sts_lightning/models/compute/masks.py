"""Attention masks whose values are not read: on a GPU each look makes Python wait for the card."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

from torch import Tensor
from transformers import masking_utils

READABLE = ("cpu",)
"""Devices where a look costs nothing; there attention is faster without a mask, where none is needed."""

_unread = ContextVar("unread", default=False)
"""Whether rows are those of an encoder, one text each; a thread has its own value."""


@contextmanager
def one_text_a_row() -> Iterator[None]:
    """Let transformers make the masks of a forward pass without reading positions and padding.

    It looks for rows of several texts, of which there are none here, and on a GPU for a batch without
    padding, whose mask it would leave out. Forward passes outside of this context are not affected.
    """
    token = _unread.set(True)
    try:
        yield
    finally:
        _unread.reset(token)


def _unless_unread(find: Any) -> Any:
    @wraps(find)
    def wrapped(position_ids: Tensor) -> Any:
        return None if _unread.get() else find(position_ids)

    return wrapped


def _made_on_a_gpu(make: Any) -> Any:
    @wraps(make)
    def wrapped(*args: Any, attention_mask: Tensor | None = None, **options: Any) -> Any:
        padded = attention_mask is not None and attention_mask.device.type not in READABLE
        if _unread.get() and padded:
            options |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
        return make(*args, attention_mask=attention_mask, **options)

    return wrapped


masking_utils.find_packed_sequence_indices = _unless_unread(masking_utils.find_packed_sequence_indices)
for _name in ("sdpa", "eager"):
    _make = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS[_name]
    masking_utils.ALL_MASK_ATTENTION_FUNCTIONS.register(_name, _made_on_a_gpu(_make))
