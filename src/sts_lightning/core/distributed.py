"""Shards of a batch, one for each process of distributed training."""

from __future__ import annotations

from typing import NamedTuple, Self

from torch import distributed


class Shard(NamedTuple):
    """The contiguous part of every batch that one process embeds.

    Attributes:
        process_rank: Number of the process, from 0.
        world_size: Number of processes.
    """

    process_rank: int = 0
    world_size: int = 1

    @classmethod
    def current(cls) -> Self:
        """Return the shard of this process; the whole batch if it trains alone."""
        if distributed.is_available() and distributed.is_initialized():
            return cls(distributed.get_rank(), distributed.get_world_size())
        return cls()

    def slice_of(self, count: int) -> slice:
        """Return the slice of ``count`` examples that belongs to this process.

        The slices of all processes cover each example once. Their sizes differ by at most one, so some are
        empty if ``count`` is less than ``world_size``.
        """
        rank = self.process_rank
        return slice(count * rank // self.world_size, count * (rank + 1) // self.world_size)

    def size_of(self, count: int) -> int:
        """Return how many of ``count`` examples belong to this process."""
        return len(range(count)[self.slice_of(count)])

    def sizes(self, count: int) -> list[int]:
        """Return how many of ``count`` examples belong to each process."""
        return [Shard(process, self.world_size).size_of(count) for process in range(self.world_size)]


WHOLE_BATCH = Shard()
"""The shard of a process that trains alone."""
