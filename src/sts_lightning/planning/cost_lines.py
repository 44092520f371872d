"""Plans in words: one in full, or many in a line each, where equal ones are planned once."""

from __future__ import annotations

import json
import logging
from typing import Any

from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from sts_lightning.core.errors import UserError
from sts_lightning.core.text import counted
from sts_lightning.planning.estimate import Estimate, estimate
from sts_lightning.planning.gpus import BANDWIDTH, EFFICIENCY, GIB, find_device
from sts_lightning.planning.meter import PURPOSES

log = logging.getLogger(__name__)

WITHOUT_COST = ("name", "seed", "init_from", "optim")
"""Settings in which the jobs of a sweep differ, and which change neither memory nor time."""


class Costs:
    """Memory, steps, tokens and time of runs.

    Args:
        device: Device by name or memory; None: that of `estimate`.

    Raises:
        ConfigError: The device is not known.
    """

    def __init__(self, device: str | None = None) -> None:
        self.device = None if device is None else find_device(device)
        self._known: dict[str, str] = {}

    def __call__(self, cfg: DictConfig) -> str:
        """Return the cost of a run; that of an equal run is not computed again.

        Args:
            cfg: Composed configuration of ``train.py`` without stages.

        Returns:
            The cost, or why there is no plan.
        """
        values: Any = OmegaConf.to_container(cfg)
        key = json.dumps({name: value for name, value in values.items() if name not in WITHOUT_COST})
        if key not in self._known:
            log.info("planning run %d ...", len(self._known) + 1)
            try:
                self._known[key] = summary(estimate(cfg, self.device))
            except UserError as error:
                self._known[key] = "no plan: " + str(error).partition("\n")[0]
        return self._known[key]


def print_estimate(name: str, plan: Estimate) -> None:
    """Print a plan, and what its figures rest on.

    Args:
        name: Name of the run or the stage.
        plan: Its estimate.
    """
    peaks = ", ".join(f"{name} {size(plan.peak[name])}" for name in PURPOSES if name in plan.peak)
    time = "time needs a GPU of known speed by name, such as --card rtx4090"
    if plan.seconds is not None:
        time = (
            f"time assumes {EFFICIENCY:.0%} of the device's arithmetic and {BANDWIDTH:.0%} of its bandwidth"
        )
    memory = "memory is that of a batch of the longest rows that the configuration allows"
    lines = [
        f"{name}: {summary(plan)}, {plan.precision}",
        f"  peak of tensors: {size(plan.memory)} of {size(plan.device.usable)} usable ({peaks})",
        *(f"  note: {note}" for note in (*plan.notes, memory, time)),
    ]
    Console().print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def summary(plan: Estimate) -> str:
    """Return memory, micro batch, steps, tokens and time of a plan in one line."""
    parts = [size(plan.memory), f"{'fits' if plan.fits else 'does not fit'} {plan.device.name}"]
    if plan.micro_batch is not None:
        parts.append(f"micro batch {plan.micro_batch}")
    parts += [counted(plan.steps, "step"), f"{plan.tokens / 1e6:.1f} M tokens"]
    if plan.seconds is not None:
        parts.append(duration(plan.seconds))
    return ", ".join(parts)


def size(count: int) -> str:
    """Return a number of bytes with a unit."""
    return f"{count / GIB:.2f} GiB" if count >= GIB // 10 else f"{count / 2**20:.1f} MiB"


def duration(seconds: float) -> str:
    """Return a time with a unit."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
