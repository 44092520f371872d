"""Training loader that can resume in the middle of an epoch."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain, cycle, islice
from typing import Any, TypeVar

import torch
from torch.utils.data import DataLoader, Sampler

from sts_lightning.data.draws import DrawnTable
from sts_lightning.data.table import Table

ItemT = TypeVar("ItemT")

Share = tuple[int, int]
"""Number of rows of a source in the table, and the number of them in an epoch."""

EPOCH_STRIDE = 1_000_003
"""Distance between the seeds of successive epochs: nearby run seeds then never share an order."""


@dataclass(frozen=True)
class PartRows:
    """Rows that share batches, and the size of these.

    Attributes:
        shares: Rows of each source, which follow each other in the table.
        batch_size: Examples in a batch. The last batch of an epoch may be smaller; a last batch of a single
            example is dropped, since batch statistics are undefined on it.
        anchors: Number of the anchor in each row whose anchor is in several, counted from the first row of
            the part. The rows of an anchor are divided evenly among the batches: they are no negatives of
            each other, and take the place of rows that are.
        lines: First row of each line, counted as the anchors are, and the end; the shares are then of lines.
            Empty where each row is a line.
    """

    shares: Sequence[Share]
    batch_size: int
    anchors: Mapping[int, int] = field(default_factory=dict)
    lines: Sequence[int] = ()

    @property
    def drawn(self) -> int:
        """Number of rows in an epoch."""
        return sum(drawn for _, drawn in self.shares)

    @property
    def drops_one(self) -> bool:
        """Whether an epoch leaves out a last batch of one example."""
        return self.drawn % self.batch_size == 1

    def first(self, batches: int) -> PartRows:
        """Return the same rows with at most so many batches in an epoch, of each source in proportion."""
        ratio = min(1.0, batches * self.batch_size / self.drawn)
        return replace(self, shares=[(length, round(ratio * drawn)) for length, drawn in self.shares])

    @property
    def table_rows(self) -> int:
        """Number of rows in the table."""
        return self.lines[-1] if self.lines else sum(length for length, _ in self.shares)

    def one_row_each(self, lines: Sequence[int], seed: int, epoch: int) -> list[int]:
        """Return a row of each line, its rows in turn from one that the seed draws.

        A line that an epoch has twice gets two of them. So no epoch repeats a row before all have had their
        turn.
        """
        if not self.lines:
            return list(lines)
        generator = torch.Generator().manual_seed(seed)
        turns = torch.randint(2**31, (len(self.lines) - 1,), generator=generator).tolist()
        steps = [max(1, drawn // length) for length, drawn in self.shares for _ in range(length)]
        met = Counter[int]()
        rows = []
        for line in lines:
            first, end = self.lines[line : line + 2]
            rows.append(first + (turns[line] + epoch * steps[line] + met[line]) % (end - first))
            met[line] += 1
        return rows

    @property
    def starts(self) -> range:
        """First position of each batch among the rows of an epoch."""
        return range(0, self.drawn - self.drops_one, self.batch_size)

    def batches(self, rows: Sequence[int], first: int, generator: torch.Generator) -> list[list[int]]:
        """Divide the rows of an epoch among its batches, in order where no anchor is in several of them.

        The others are dealt to the batches in turn, those of an anchor one after another. An anchor with
        fewer rows than there are batches is at most once in each, and one with more about as often in all.

        Args:
            rows: Rows of the table in random order.
            first: First row of the part in the table.
            generator: Source of the order in which the batches are dealt to.
        """
        slices = [list(rows[start : start + self.batch_size]) for start in self.starts]
        if not self.anchors:
            return slices
        counts = Counter(self.anchors.get(row - first) for row in rows)
        alone: list[int] = []
        together: dict[int, list[int]] = {}
        for row in rows:
            anchor = self.anchors.get(row - first)
            if anchor is None or counts[anchor] == 1:
                alone.append(row)
            else:
                together.setdefault(anchor, []).append(row)
        room = [len(batch) for batch in slices]
        batches: list[list[int]] = [[] for _ in room]
        # In random order: neighbours would have the same anchors.
        turns = cycle(torch.randperm(len(room), generator=generator).tolist())
        for row in islice(chain.from_iterable(together.values()), sum(room)):
            turn = next(turn for turn in turns if len(batches[turn]) < room[turn])
            batches[turn].append(row)
        rest = iter(alone)
        for batch, size in zip(batches, room, strict=True):
            batch += islice(rest, size - len(batch))
        return batches


class EpochBatches(Sampler[list[int]]):
    """Batches of the rows of an epoch in a random order that depends on ``(seed, epoch)`` alone.

    An epoch with more rows of a source than there are has each of them as often as possible, and a random
    sample without replacement, drawn anew in each epoch, makes up the rest. Where there are several parts, a
    batch has rows of one of them, and the batches of all parts are in random order.

    Args:
        parts: Parts of the table, which follow each other in it.
        seed: Random seed.

    Attributes:
        epoch: Epoch of the next permutation.
        skip: Number of leading batches to skip in the next permutation.
    """

    def __init__(self, parts: Sequence[PartRows], seed: int) -> None:
        self.parts = parts
        self.seed = seed
        self.epoch = 0
        self.skip = 0

    def __len__(self) -> int:
        return sum(len(part.starts) for part in self.parts)

    def __iter__(self) -> Iterator[list[int]]:
        generator = torch.Generator().manual_seed(self.seed + EPOCH_STRIDE * self.epoch)
        batches: list[list[int]] = []
        first = 0
        for part in self.parts:
            lines: list[int] = []
            of_source = 0
            for length, drawn in part.shares:
                whole, rest = divmod(drawn, length) if length else (0, 0)
                lines += list(range(of_source, of_source + length)) * whole
                if rest:
                    sample = torch.randperm(length, generator=generator)[:rest]
                    lines += (of_source + sample).tolist()
                of_source += length
            order = torch.randperm(len(lines), generator=generator).tolist()
            rows = part.one_row_each([lines[index] for index in order], self.seed, self.epoch)
            batches += part.batches([first + row for row in rows], first, generator)
            first += part.table_rows
        if len(self.parts) > 1:
            batches = [batches[index] for index in torch.randperm(len(batches), generator=generator).tolist()]
        start, self.skip = self.skip, 0
        yield from batches[start:]


def prefetched(items: Iterator[ItemT], count: int) -> Iterator[ItemT]:
    """Yield items in order, while a thread computes the next ones.

    Args:
        items: Iterator that computes each item when asked for it.
        count: Maximum number of items that are computed before they are asked for; 0: no thread.
    """
    if count == 0:
        yield from items
        return

    def next_item() -> list[ItemT]:
        return list(islice(items, 1))  # empty at the end

    with ThreadPoolExecutor(1, "prefetch") as thread:
        waiting = deque(thread.submit(next_item) for _ in range(count))
        try:
            while item := waiting.popleft().result():
                waiting.append(thread.submit(next_item))
                yield from item
        finally:
            for future in waiting:
                future.cancel()


class ResumableLoader(DataLoader[Any]):
    """Loader that reshuffles a table in each epoch, and resumes after the last batch that was used.

    The batches of an epoch are the same in an uninterrupted run and in a resumed one; nothing is
    drawn from the global random state.

    Args:
        table: Table of examples, perhaps with columns that are drawn.
        parts: Its rows, see `EpochBatches`.
        collate: Function that turns a list of examples into a batch.
        seed: Random seed of the order.
        num_workers: Number of worker processes that collate in the background; 0 collates in the training
            process.
        epoch_batches: Limit of the batches in an epoch; all batches of the table if None.
        ahead: Number of batches that a thread of the training process collates before they are asked for, so
            that a GPU does not wait for the tokeniser, which releases the GIL while it works. Without
            effect if there are worker processes, which do the same.

    Attributes:
        whole_epoch: Number of batches in an epoch without a limit.
        same_batches: Whether every epoch has the batches of the first.
    """

    def __init__(
        self,
        table: Table | DrawnTable,
        parts: Sequence[PartRows],
        collate: Callable[[list[dict[str, Any]]], Any],
        seed: int,
        num_workers: int = 0,
        epoch_batches: int | None = None,
        ahead: int = 0,
    ) -> None:
        self.order = EpochBatches(parts, seed)
        super().__init__(
            table,  # type: ignore[arg-type]  # has what the loader asks for
            batch_sampler=self.order,
            collate_fn=collate,
            num_workers=num_workers,
            generator=torch.Generator().manual_seed(seed),
        )
        self.whole_epoch = len(self.order)
        self.epoch_batches = min(self.whole_epoch, epoch_batches or self.whole_epoch)
        self.ahead = 0 if num_workers else ahead
        self.same_batches = False
        self._epoch = -1
        self._position = 0
        self._state = {"epoch": 0, "position": 0}

    def __len__(self) -> int:
        return self.epoch_batches

    def first_epoch(self) -> list[list[int]]:
        """Return the rows of each batch of the first epoch."""
        return list(EpochBatches(self.order.parts, self.order.seed))[: self.epoch_batches]

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # a generator serves as the iterator
        self._epoch += 1
        start, self._position = self._position, 0
        self.order.epoch, self.order.skip = 0 if self.same_batches else self._epoch, start
        if isinstance(self.dataset, DrawnTable):  # before worker processes copy it
            self.dataset.epoch = self.order.epoch
        left = islice(super().__iter__(), self.epoch_batches - start)
        for position, batch in enumerate(prefetched(left, self.ahead), start=start + 1):
            # The state counts batches that the consumer has received, not those that workers have prefetched.
            self._state = {"epoch": self._epoch, "position": position}
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Return the epoch and the number of batches yielded in it."""
        return self._state

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Resume after the batch at which ``state`` was saved; `DataModule` checks the data."""
        finished = state["position"] >= self.epoch_batches
        self._epoch = state["epoch"] if finished else state["epoch"] - 1
        self._position = 0 if finished else state["position"]
        self._state = {"epoch": state["epoch"], "position": state["position"]}
