"""Which examples of a batch a process embeds, where several train together."""

from __future__ import annotations

from typing import NamedTuple, Self

from torch import distributed


class Share(NamedTuple):
    """One of several processes.

    Attributes:
        process: Its number, from 0.
        processes: How many there are.
    """

    process: int = 0
    processes: int = 1

    @classmethod
    def current(cls) -> Self:
        """That of this process; the whole where it trains alone."""
        if distributed.is_available() and distributed.is_initialized():
            return cls(distributed.get_rank(), distributed.get_world_size())
        return cls()

    def of(self, count: int) -> slice:
        """Its part of ``count`` examples in a row; sizes differ by one at most, and some may be empty."""
        return slice(count * self.process // self.processes, count * (self.process + 1) // self.processes)

    def sizes(self, count: int) -> list[int]:
        """How many of ``count`` examples each process has."""
        parts = [Share(process, self.processes).of(count) for process in range(self.processes)]
        return [part.stop - part.start for part in parts]


WHOLE = Share()
"""Of a process that trains alone."""
