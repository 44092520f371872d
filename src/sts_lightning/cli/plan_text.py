"""Text of a plan."""

from __future__ import annotations

from rich.console import Console

from sts_lightning.planning.cards import BANDWIDTH, EFFICIENCY
from sts_lightning.planning.costs import duration, size
from sts_lightning.planning.estimate import Estimate
from sts_lightning.planning.meter import KINDS
from sts_lightning.text import counted


def print_estimate(name: str, plan: Estimate) -> None:
    """Print a plan.

    Args:
        name: Name of the run or the stage.
        plan: Its estimate.
    """
    console = Console()

    def line(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    line(f"{name}: {summary(plan)}")
    kinds = (f"{kind} {size(plan.peak[kind])}" for kind in KINDS if kind in plan.peak)
    line(f"  peak of tensors: {size(plan.memory)} ({', '.join(kinds)})")
    line(f"  {micro_batches(plan)}")
    for note in (*plan.notes, *assumptions(plan)):
        line(f"  note: {note}")


def summary(plan: Estimate) -> str:
    """Return memory, steps, tokens and time of a plan in one line."""
    fits = "fits" if plan.fits else "does not fit"
    text = (
        f"{size(plan.memory)}, {fits} {plan.card.name} ({size(plan.card.usable)} usable), {plan.precision}; "
        f"{counted(plan.steps, 'step')}, {plan.tokens / 1e6:.1f} M tokens"
    )
    return text if plan.seconds is None else f"{text}, {duration(plan.seconds)}"


def micro_batches(plan: Estimate) -> str:
    """Return which micro batch the plan has, and which would fit."""
    own = "no micro batches" if plan.micro_batch is None else f"micro batches of {plan.micro_batch}"
    if plan.whole_fits:
        return f"{own}; the whole batch fits at once"
    fitting = f"the largest that fits is {plan.largest}" if plan.largest else "not even one example fits"
    return f"{own}; {fitting}"


def assumptions(plan: Estimate) -> list[str]:
    """Return what the figures of a plan rest on."""
    given = ["memory is that of a batch of the longest rows that the configuration allows"]
    if plan.card.gpu and plan.seconds is not None:
        given.append(
            f"time assumes {EFFICIENCY:.0%} of the card's arithmetic and {BANDWIDTH:.0%} of its bandwidth"
        )
    elif plan.seconds is None:
        given.append("time needs a card by name, since the speed of this one is not known")
    return given
