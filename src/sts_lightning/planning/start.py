"""The micro batch from which ``trainer.micro_batch_size=auto`` starts its search."""

from __future__ import annotations

import logging
from dataclasses import replace

import psutil
import torch
from omegaconf import DictConfig

from sts_lightning.config.machine import Machine
from sts_lightning.planning.cards import Card, this_machine
from sts_lightning.planning.estimate import Tracer
from sts_lightning.text import counted

log = logging.getLogger(__name__)

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
