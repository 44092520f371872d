"""The largest micro batch that fits, against a look at every size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from sts_lightning.planning.estimate import Tracer
from sts_lightning.planning.gpus import Device
from sts_lightning.planning.trace_step import Trace

WHOLE = 256


class Drawn(Tracer):
    """Traces whose memory is a function of the micro batch."""

    def __init__(self, usable: int, memory: Callable[[int], int]) -> None:
        self.device = Device("test", usable, gpu=False)
        self.batch_size = WHOLE
        self.memory = memory
        self.traced: list[int | None] = []

    def trace(self, micro: int | None) -> tuple[Trace, int]:
        self.traced.append(micro)
        activations = 2 * self.memory(WHOLE) if micro is None else self.memory(micro)
        nothing = Counter[object]()
        return Trace(Counter(weights=4_000, activations=activations), 0, nothing, nothing, nothing), 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "memory",
    [
        lambda size: 100 * size,
        lambda size: 3_000 + 101_000 * size // 512 * 512 // 1_000,  # a part that does not grow, and a grain
        lambda size: max(9_000, 100 * size),  # the peak is first that of the optimiser
        lambda size: 100 * min(size, 90),  # chunks are no larger
    ],
)
def test_it_is_the_last_size_that_fits(memory: Callable[[int], int]) -> None:
    for usable in range(3_000, 60_000, 777):
        fitting = [size for size in range(1, WHOLE + 1) if 4_000 + memory(size) <= usable]
        expected = max(fitting, default=0)
        if 4_000 + 2 * memory(WHOLE) <= usable:
            expected = None  # type: ignore[assignment]
        tracer = Drawn(usable, memory)
        assert tracer.largest() == expected
        assert len(set(tracer.traced)) <= 4 + 8 + 1
