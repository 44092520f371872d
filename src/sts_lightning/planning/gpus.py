"""Memory and speed of GPUs, and the time that arithmetic takes on them."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from importlib.resources import files

import psutil
import torch
import yaml
from omegaconf import DictConfig

from sts_lightning.core.errors import ConfigError
from sts_lightning.core.hardware import cpu_multiplies_bfloat16
from sts_lightning.planning.meter import Cost

GIB = 2**30

STEP = GIB // 4
"""Unit of the memory of this machine's GPU, so that a plan does not change with every byte that is taken."""

CONTEXT = int(0.75 * GIB)
"""Memory of a device that PyTorch's tensors cannot use: CUDA's context, kernels, workspaces of libraries."""

FRAGMENTS = 0.05
"""Fraction of the rest that is lost between tensors."""

EFFICIENCY = 0.5
"""Fraction of a device's peak that its matrix products reach; an assumption."""

BANDWIDTH = 0.7
"""Fraction of a device's bandwidth that other operations reach; an assumption."""


@dataclass(frozen=True)
class Device:
    """A device to plan for.

    Attributes:
        name: Name for the output.
        memory: Its memory in bytes.
        half: Matrix products in 16 bits in FLOP/s, 0 if only its memory is known.
        full: The same in 32 bits.
        bandwidth: Bytes/s to its memory.
        precision: Precision that ``auto`` stands for on it.
        gpu: Whether it is a GPU.
    """

    name: str
    memory: int
    half: float = 0.0
    full: float = 0.0
    bandwidth: float = 0.0
    precision: str = "bf16-mixed"
    gpu: bool = True

    @property
    def usable(self) -> int:
        """Bytes that tensors can take."""
        return int((self.memory - CONTEXT) * (1 - FRAGMENTS)) if self.gpu else self.memory

    def seconds(self, costs: Counter[Cost]) -> float:
        """Return the time of operations on a device of known speed, limited by arithmetic or bandwidth."""
        total = 0.0
        for cost, count in costs.items():
            peak = self.full if cost.dtype == torch.float32 else self.half
            total += count * max(cost.flops / (peak * EFFICIENCY), cost.moved / (self.bandwidth * BANDWIDTH))
        return total


_SHEETS = yaml.safe_load((files("sts_lightning.planning") / "gpus.yaml").read_text(encoding="utf-8"))

GPUS = {
    name: Device(name, gib * GIB, half * 1e12, full * 1e12, bandwidth * 1e9, precision)
    for name, (gib, half, full, bandwidth, precision) in _SHEETS.items()
}
"""GPUs whose speed is known, by name."""


def find_device(text: str) -> Device:
    """Return a device by its name, one of which only the memory is known, such as ``24GB``, or this ``cpu``.

    Raises:
        ConfigError: It is neither.
    """
    name = text.lower()
    if name == "cpu":
        return _this_cpu()
    if name in GPUS:
        return GPUS[name]
    size = re.fullmatch(r"(\d+(?:\.\d+)?) ?gi?b", name)
    if size is None or not 0 < float(size[1]) < 1e6:
        raise ConfigError(
            f"card {text!r} is not known.",
            key="card",
            hint=f"Choose among cpu, {', '.join(GPUS)}, or give the memory, as in 24GB.",
        )
    return Device(text, int(float(size[1]) * GIB))


def device_for(cfg: DictConfig, machine: Device) -> Device:
    """Return this machine's device, or a common GPU if the run needs one and there is none."""
    trainer = cfg.trainer
    needs_gpu = trainer.accelerator == "gpu" or (trainer.accelerator == "auto" and not trainer.cpu_fallback)
    return find_device("24GB") if needs_gpu and not machine.gpu else machine


def this_machine() -> Device:
    """Return the visible GPU or this CPU, of unknown speed: its name does not say which of `GPUS` it is.

    Its memory is what other processes leave, in steps: of a GPU `STEP`, of a CPU an eighth.
    """
    if not torch.cuda.is_available():
        return _this_cpu()
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    precision = "bf16-mixed" if properties.major >= 8 else "32-true"
    free, total = torch.cuda.mem_get_info()
    # What this process holds is its own, and so is its context, which `usable` leaves room for.
    taken = max(0, total - free - torch.cuda.memory_reserved() - CONTEXT)
    return Device(properties.name, total - math.ceil(taken / STEP) * STEP, precision=precision)


def _this_cpu() -> Device:
    precision = "bf16-mixed" if cpu_multiplies_bfloat16() else "32-true"
    memory = psutil.virtual_memory()
    step = memory.total // 8  # coarse, since what is available changes all the time
    return Device("this CPU", memory.available // step * step, precision=precision, gpu=False)
