"""Masks of a forward pass that are made without reading positions and padding."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

from torch import Tensor
from transformers import masking_utils

READABLE = ("cpu",)
"""Devices where a look costs nothing; there attention is faster without a mask, where none is needed."""

_LOCK = threading.Lock()
_entered = 0
_find = masking_utils.find_packed_sequence_indices

_skips = ContextVar("skips", default=False)
"""Whether this thread is inside; another one may run a model of its own meanwhile."""


@contextmanager
def skip_mask_inspection() -> Iterator[None]:
    """Let transformers make the masks of a forward pass without reading positions and padding.

    It inspects ``position_ids`` for packed rows and, on a GPU too, the mask for padding, for which the host
    waits. Rows of an encoder are never packed. The library has no argument for either, so that two of its
    functions are replaced, as long as a thread is inside; forward passes of other threads are not affected.
    """
    global _entered
    with _LOCK:
        _entered += 1
        if _entered == 1:
            masking_utils.find_packed_sequence_indices = _find_nothing
            for name in ("sdpa", "eager"):
                interface = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS
                interface[name] = _never_skipped(interface[name])
    token = _skips.set(True)
    try:
        yield
    finally:
        _skips.reset(token)
        with _LOCK:
            _entered -= 1
            if _entered == 0:
                masking_utils.find_packed_sequence_indices = _find
                for name in ("sdpa", "eager"):
                    del masking_utils.ALL_MASK_ATTENTION_FUNCTIONS[name]


def _find_nothing(position_ids: Tensor) -> Any:
    return None if _skips.get() else _find(position_ids)


def _never_skipped(make: Any) -> Any:
    @wraps(make)
    def wrapped(*args: Any, attention_mask: Tensor | None = None, **options: Any) -> Any:
        padded = attention_mask is not None and attention_mask.device.type not in READABLE
        if _skips.get() and padded:
            options |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
        return make(*args, attention_mask=attention_mask, **options)

    return wrapped
