from __future__ import annotations

import pytest

from sts_lightning.core.processes import WHOLE_BATCH, Shard


@pytest.mark.parametrize("count", range(8))
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_shards_cover_each_example_once(count: int, world_size: int) -> None:
    slices = [Shard(rank, world_size).slice_of(count) for rank in range(world_size)]
    assert [index for part in slices for index in range(count)[part]] == list(range(count))
    sizes = Shard(0, world_size).sizes(count)
    assert sizes == [part.stop - part.start for part in slices]
    assert sizes == [Shard(rank, world_size).size_of(count) for rank in range(world_size)]
    assert max(sizes) - min(sizes) <= 1


def test_a_process_alone_has_the_whole_batch() -> None:
    assert Shard.current() == WHOLE_BATCH == Shard(0, 1)
