"""Plans in words: one in full, or many in a line each, where equal ones are planned once."""

from __future__ import annotations

import json
import logging
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from sts_lightning.errors import UserError
from sts_lightning.planning.cards import BANDWIDTH, EFFICIENCY, GIB, Card, find_card, this_machine
from sts_lightning.planning.estimate import Estimate, estimate
from sts_lightning.planning.meter import KINDS
from sts_lightning.text import counted

log = logging.getLogger(__name__)

ANY_CARD = Card("any card", 2**20 * GIB)
"""Card for plans without one: everything fits, and the time is not known."""

WITHOUT_COST = (
    "name",
    "seed",
    "init_from",
    "init",
    "stages",
    "optim",
    "logger",
    "callbacks",
)
"""Settings that change neither memory nor time."""


class Costs:
    """Memory, steps, tokens and time of runs.

    Args:
        card: Device by name or memory; None: the visible GPU, or none, for which memory, steps and tokens are
            given alone.

    Raises:
        ConfigError: The card is not known.
    """

    def __init__(self, card: str | None = None) -> None:
        self.named = card is not None or torch.cuda.is_available()
        self.card = ANY_CARD if not self.named else this_machine() if card is None else find_card(card)
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
            self._known[key] = self._cost(cfg)
        return self._known[key]

    def _cost(self, cfg: DictConfig) -> str:
        # The largest micro batch that fits is not known without a card.
        assumed = not self.named and cfg.trainer.micro_batch_size == "auto"
        try:
            return summary(estimate(cfg, find_card("24GB") if assumed else self.card, quick=True))
        except UserError as error:
            reason = str(error).partition("\n")[0]
            return f"no plan: {reason}"


def print_estimate(name: str, plan: Estimate) -> None:
    """Print a plan, and what its figures rest on.

    Args:
        name: Name of the run or the stage.
        plan: Its estimate.
    """
    console = Console()
    own = "no micro batches" if plan.micro_batch is None else f"micro batches of {plan.micro_batch}"
    if plan.whole_fits:
        fitting = "the whole batch fits at once"
    else:
        fitting = f"the largest that fits is {plan.largest}" if plan.largest else "not even one example fits"
    kinds = ", ".join(f"{kind} {size(plan.peak[kind])}" for kind in KINDS if kind in plan.peak)
    lines = [
        f"{name}: {summary(plan)}, {plan.precision}",
        f"  peak of tensors: {size(plan.memory)} of {size(plan.card.usable)} usable ({kinds})",
        f"  {own}; {fitting}",
        *(f"  note: {note}" for note in (*plan.notes, *_assumptions(plan))),
    ]
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def summary(plan: Estimate) -> str:
    """Return memory, micro batch, steps, tokens and time of a plan in one line."""
    parts = [size(plan.memory)]
    if plan.card is not ANY_CARD:
        parts.append(f"{'fits' if plan.fits else 'does not fit'} {plan.card.name}")
    if plan.micro_batch is not None:
        parts.append(f"micro batch {plan.micro_batch}")
    parts += [counted(plan.steps, "step"), f"{plan.tokens / 1e6:.1f} M tokens"]
    if plan.seconds is not None:
        parts.append(duration(plan.seconds))
    return ", ".join(parts)


def _assumptions(plan: Estimate) -> list[str]:
    memory = "memory is that of a batch of the longest rows that the configuration allows"
    time = "time needs a card by name, since the speed of this one is not known"
    if plan.seconds is not None:
        time = f"time assumes {EFFICIENCY:.0%} of the card's arithmetic and {BANDWIDTH:.0%} of its bandwidth"
    return [memory, time]


def size(count: int) -> str:
    """Return a number of bytes with a unit."""
    return f"{count / GIB:.2f} GiB" if count >= GIB // 10 else f"{count / 2**20:.1f} MiB"


def duration(seconds: float) -> str:
    """Return a time with a unit."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
