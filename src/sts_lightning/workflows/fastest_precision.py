"""The fastest precision of an evaluation that goes with machine and model: ``precision=auto``."""

from __future__ import annotations

import torch

from sts_lightning.config.machine import cpu_multiplies_bfloat16
from sts_lightning.errors import ConfigError
from sts_lightning.models.encoder import SentenceEncoder


def use_fastest_precision(encoder: SentenceEncoder) -> SentenceEncoder:
    """Convert an encoder, in place, to the fastest precision that its device multiplies natively.

    On a CPU with AVX512-VNNI that is ``int8``, where the model has linear layers only and its cosines stay
    what they were (`convert_to_int8`); else ``bf16-true`` on CPUs with AVX512_BF16 and on GPUs from compute
    capability 8.0; else, as on Apple GPUs, ``32-true``. With AMX, whose products are no longer most of
    the work, ``bf16-true`` takes three quarters of the time of ``int8``. Quantised weights stay as they are.
    """
    if getattr(encoder.plain_backbone, "is_quantized", False):
        return encoder
    kind = encoder.device.type
    if kind == "cpu" and not torch.cpu._is_amx_tile_supported():
        try:
            return encoder.set_precision("int8")
        except ConfigError:  # the next one
            pass
    if kind == "cuda":
        native = torch.cuda.get_device_capability(encoder.device)[0] >= 8
    else:
        native = kind == "cpu" and cpu_multiplies_bfloat16()
    return encoder.set_precision("bf16-true" if native else "32-true")
