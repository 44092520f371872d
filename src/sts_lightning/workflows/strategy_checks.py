"""What divided weights (``trainer.strategy=fsdp``) do not go together with."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from lightning.pytorch.callbacks import Callback, WeightAveraging
from omegaconf import DictConfig

from sts_lightning.errors import ConfigError
from sts_lightning.models.backbone import DTYPES
from sts_lightning.training.trainer import several

OLDEST_FOR_4BIT = (2, 13)
"""Version of PyTorch with which dividing 4-bit weights was tested; earlier ones reject their dtype."""


def is_sharding(trainer: DictConfig) -> bool:
    """Return whether the processes of a run divide the weights among themselves."""
    return several(trainer) and trainer.strategy == "fsdp"


def check_strategy(cfg: DictConfig, callbacks: Sequence[Callback]) -> None:
    """Reject settings that need all weights in one process.

    Args:
        cfg: Configuration of the run.
        callbacks: Callbacks of the configuration.

    Raises:
        ConfigError: One of them.
    """
    if not is_sharding(cfg.trainer):
        return
    report = cfg.evaluation.precision
    own = next(
        (name for name, dtype in DTYPES.items() if str(dtype) == f"torch.{cfg.model.get('dtype')}"), "32-true"
    )
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    quantization = cfg.model.get("quantization", "none")
    averages = [
        key for key, part in zip(cfg.callbacks, callbacks, strict=True) if isinstance(part, WeightAveraging)
    ]
    reasons = {
        "precision": (
            cfg.trainer.precision == "16-mixed",
            "scales gradients by what one process sees; use bf16-mixed",
        ),
        "trainer.micro_batch_size": (
            cfg.trainer.micro_batch_size == "auto",
            "looks for a size in each process by itself; set a number",
        ),
        "model.quantization": (
            quantization == "8bit" or (quantization == "4bit" and version < OLDEST_FOR_4BIT),
            "keeps a second copy of its weights; use 4bit"
            if quantization == "8bit"
            else f"needs PyTorch {'.'.join(map(str, OLDEST_FOR_4BIT))} here, and this is {torch.__version__}",
        ),
        "evaluation.precision": (
            report not in (None, own),
            f"would convert weights of which each process has a part; leave it out, or evaluate with "
            f"eval.py ckpt=... precision={report}",
        ),
        f"callbacks.{''.join(averages[:1])}": (bool(averages), "copies the model"),
        "trainer.wise_ft": (
            bool(cfg.trainer.wise_ft),
            "averages all weights; sts-lightning average RUN --with-start does so afterwards",
        ),
    }
    for key, (present, reason) in reasons.items():
        if present:
            raise ConfigError(f"trainer.strategy=fsdp does not go with {key}: it {reason}.", key=key)
