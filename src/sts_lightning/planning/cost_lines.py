"""Plans in words: one in full, or many in a line each, where equal ones are planned once."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from huggingface_hub.constants import HF_HUB_CACHE
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

import sts_lightning
from sts_lightning.core.errors import UserError
from sts_lightning.core.files import read_json, write_atomic
from sts_lightning.core.text import counted
from sts_lightning.planning.gpus import (
    BANDWIDTH,
    EFFICIENCY,
    GIB,
    Device,
    device_for,
    find_device,
    this_machine,
)
from sts_lightning.planning.meter import PURPOSES

if TYPE_CHECKING:
    from sts_lightning.data.data_set import Splits
    from sts_lightning.planning.estimate import Estimate

log = logging.getLogger(__name__)

WITHOUT_COST = ("name", "seed", "init_from", "optim")
"""Settings in which the jobs of a sweep differ, and which change neither memory nor time."""

MOST_FILES = 10_000
"""Number of files of a folder that are looked at: a word may happen to name a large one."""

LIBRARIES = ("torch", "transformers", "peft", "bitsandbytes")
"""Packages whose code a plan traces."""


class Cost(NamedTuple):
    """Cost of a run in words, or why there is no plan, and its duration if the device's speed is known."""

    text: str
    seconds: float | None = None


class Costs:
    """Memory, steps, tokens and time of runs.

    They are kept in ``$XDG_CACHE_HOME/sts-lightning/plans``, by default below ``~/.cache``, under a name that
    changes with the configuration, the files that it names, the device, this package and `LIBRARIES`.

    Args:
        device: Device by name or memory; None: that of `estimate`.

    Raises:
        ConfigError: The device is not known.
    """

    def __init__(self, device: str | None = None) -> None:
        self.device = None if device is None else find_device(device)
        self.machine = self.device or this_machine()  # whose free memory changes while runs are planned
        self._known: dict[str, Cost] = {}
        self._splits: dict[str, Splits] = {}

    def __call__(self, cfg: DictConfig) -> str:
        """Return the cost of a run in words; see `of`."""
        return self.of(cfg).text

    def of(self, cfg: DictConfig) -> Cost:
        """Return the cost of a run; that of an equal run is not computed again.

        Args:
            cfg: Composed configuration of ``train.py`` without stages.
        """
        values: Any = OmegaConf.to_container(cfg)
        settings = {name: value for name, value in values.items() if name not in WITHOUT_COST}
        device = self.device or device_for(cfg, self.machine)
        key = json.dumps([settings, repr(device), sorted(_files([settings, cfg.data_root])), _code()])
        if key not in self._known:
            folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sts-lightning/plans"
            path = folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
            self._known[key] = _read(path) or self._plan(cfg, device, path)
        return self._known[key]

    def _plan(self, cfg: DictConfig, device: Device, path: Path) -> Cost:
        from sts_lightning.planning.estimate import estimate  # a known cost needs no libraries

        log.info("planning run %d ...", len(self._known) + 1)
        try:
            plan = estimate(cfg, device, self._splits)
        except UserError as error:
            return Cost("no plan: " + str(error).partition("\n")[0])
        cost = Cost(summary(plan), plan.seconds)
        with suppress(OSError):  # no place for the cache
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, json.dumps(cost))
        return cost


def _read(path: Path) -> Cost | None:
    try:
        return Cost(*read_json(path, tuple[str, float | None]))
    except (OSError, ValueError):
        return None


def _files(values: Any) -> Iterator[tuple[str, int, int]]:
    """Yield path, size and time of the files that a configuration names, and of models in the hub's cache."""
    for text in _texts(values):
        stored = text.partition("@")[0].replace("/", "--")
        hub = (Path(HF_HUB_CACHE, f"{kind}--{stored}") for kind in ("models", "datasets"))
        for folder in (Path(text), *hub):
            with suppress(OSError, ValueError):  # a text that is no path
                inside = islice(folder.rglob("*"), MOST_FILES)
                for file in [folder, *inside] if folder.exists() else ():
                    state = file.stat()
                    yield str(file.absolute()), state.st_size, state.st_mtime_ns


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)
    elif isinstance(value, str) and value:
        yield value


@cache
def _code() -> str:
    """Return a hash of this package, and the versions of `LIBRARIES`."""
    digest = hashlib.sha256()
    for path in sorted(Path(sts_lightning.__file__).parent.rglob("*")):
        if path.suffix in (".py", ".yaml"):
            digest.update(path.read_bytes())
    return " ".join([digest.hexdigest(), *map(version, LIBRARIES)])


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
