"""Plans in words: one in full, or many in a line each, where equal ones are planned once."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import psutil
import torch
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from sts_lightning.config.machine import Machine
from sts_lightning.core.errors import UserError
from sts_lightning.core.text import counted
from sts_lightning.planning.estimate import Estimate, Tracer, estimate
from sts_lightning.planning.gpus import BANDWIDTH, EFFICIENCY, GIB, Card, find_card, this_machine
from sts_lightning.planning.meter import KINDS

log = logging.getLogger(__name__)

WITHOUT_COST = ("name", "seed", "init_from", "optim")
"""Settings in which the jobs of a sweep differ, and which change neither memory nor time."""


class Costs:
    """Memory, steps, tokens and time of runs.

    Args:
        card: Device by name or memory; None: that of `estimate`.

    Raises:
        ConfigError: The card is not known.
    """

    def __init__(self, card: str | None = None) -> None:
        self.card = None if card is None else find_card(card)
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
                self._known[key] = summary(estimate(cfg, self.card))
            except UserError as error:
                self._known[key] = "no plan: " + str(error).partition("\n")[0]
        return self._known[key]


def print_estimate(name: str, plan: Estimate) -> None:
    """Print a plan, and what its figures rest on.

    Args:
        name: Name of the run or the stage.
        plan: Its estimate.
    """
    kinds = ", ".join(f"{kind} {size(plan.peak[kind])}" for kind in KINDS if kind in plan.peak)
    time = "time needs a card of known speed by name, such as --card rtx4090"
    if plan.seconds is not None:
        time = f"time assumes {EFFICIENCY:.0%} of the card's arithmetic and {BANDWIDTH:.0%} of its bandwidth"
    memory = "memory is that of a batch of the longest rows that the configuration allows"
    lines = [
        f"{name}: {summary(plan)}, {plan.precision}",
        f"  peak of tensors: {size(plan.memory)} of {size(plan.card.usable)} usable ({kinds})",
        *(f"  note: {note}" for note in (*plan.notes, memory, time)),
    ]
    Console().print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def summary(plan: Estimate) -> str:
    """Return memory, micro batch, steps, tokens and time of a plan in one line."""
    parts = [size(plan.memory), f"{'fits' if plan.fits else 'does not fit'} {plan.card.name}"]
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


HOST_FRACTION = 0.5
"""Fraction of the available host memory to plan with, as the search that follows allows."""


def planned_micro_batch(cfg: DictConfig, machine: Machine) -> int | None:
    """Return the largest micro batch of a process that fits its device by plan.

    It is None if the whole batch fits, or if there is no plan.

    A model that cannot be traced is no reason to stop a run: the search then starts from the whole batch,
    and the log says so.

    Args:
        cfg: Configuration that `check_config` has resolved.
        machine: The hardware, and the settings that depend on it.
    """
    card = replace(_device(machine), precision=machine.precision)
    try:
        with torch.random.fork_rng(devices=[]):  # heads draw from the global random state
            size = Tracer(cfg, card).largest()
    except Exception as error:  # whatever a model of an unknown kind raises on fake tensors
        log.info(
            "no plan of the memory (%s: %s); the search starts from the whole batch",
            type(error).__name__,
            str(error).partition("\n")[0],
        )
        return None
    micro = "the whole batch fits" if size is None else f"micro batches of {counted(size, 'example')} fit"
    log.info("by plan, %s into %.1f GiB", micro, card.usable / 2**30)
    return None if size is None else max(1, size)


def _device(machine: Machine) -> Card:
    if machine.accelerator == "gpu":
        return this_machine()
    return Card("host", int(HOST_FRACTION * psutil.virtual_memory().available), gpu=False)
