"""4-bit weights of bitsandbytes on the emulated GPU, multiplied by its kernels for the CPU."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from tests.support.emulated_gpu import GPUTensor

SETTINGS = ("blocksize", "compress_statistics", "quant_type", "quant_storage")


class Params4bit(GPUTensor):
    """Packed weights on the card; libraries know them by the name of the class."""

    _is_param = True
    bnb_quantized = True
    quant_state: Any

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) not in memo:
            memo[id(self)] = packed(self.detach().clone(), self, copy.deepcopy(self.quant_state, memo))
        made: Tensor = memo[id(self)]
        return made


def packed(data: Tensor, like: Any, state: Any) -> Any:
    """Return packed weights where their data are, with the settings of others."""
    from bitsandbytes.nn.modules import Params4bit as OnHost

    settings = {name: getattr(like, name) for name in SETTINGS} | {"quant_state": state}
    state.to(data.device)
    if not isinstance(data, GPUTensor):
        return OnHost(data, bnb_quantized=True, **settings)
    made = Params4bit(data.held)
    vars(made).update(settings)
    return made


def plain(weight: Any) -> Tensor:
    """Return weights without the class of bitsandbytes, in which C++ cannot put data of the card."""
    with torch._C.DisableTorchFunctionSubclass():
        detached: Tensor = weight.detach()
        return detached


@contextlib.contextmanager
def emulated_nf4() -> Iterator[None]:
    """Let linear layers be quantised on the card, moved to it and back."""
    from bitsandbytes.nn.modules import Linear4bit
    from transformers import modeling_utils
    from transformers.integrations.bitsandbytes import Bnb4bitDeserialize, Bnb4bitQuantize

    apply: Any = nn.Module._apply

    def moved(self: Any, *args: Any, **options: Any) -> Any:
        weight, state = self.weight, self.quant_state
        if state is not None:
            self.weight = nn.Parameter(plain(weight), requires_grad=False)
        apply(self, *args, **options)
        if state is not None:
            self.weight = packed(plain(self.weight), weight, state)
        return self

    def placed(convert: Any) -> Any:
        """Let a conversion of what a file holds run on the host."""

        def converted(self: Any, inputs: dict[str, Any], *args: Any, **options: Any) -> dict[str, Any]:
            values = {name: value[0] if isinstance(value, list) else value for name, value in inputs.items()}
            made = convert(self, {name: value.cpu() for name, value in values.items()}, *args, **options)
            device = next(iter(values.values())).device
            return {
                name: packed(plain(value).to(device), value, value.quant_state)
                if hasattr(value, "quant_state")
                else value.to(device)
                for name, value in made.items()
            }

        return converted

    with (
        mock.patch.dict(os.environ, HF_DEACTIVATE_ASYNC_LOAD="1"),  # other threads do not see the card
        # It reckons with a card of more than 1.2 GiB.
        mock.patch.object(modeling_utils, "caching_allocator_warmup", lambda *_: None),
        mock.patch.object(Linear4bit, "_apply", moved),
        mock.patch.object(Bnb4bitQuantize, "convert", placed(Bnb4bitQuantize.convert)),
        mock.patch.object(Bnb4bitDeserialize, "convert", placed(Bnb4bitDeserialize.convert)),
    ):
        yield
