from __future__ import annotations

from itertools import chain, islice
from typing import Any

import pytest
from datasets import Dataset

from sts_lightning.data.loader import ResumableLoader


def numbers(examples: list[dict[str, Any]]) -> list[int]:
    return [example["n"] for example in examples]


def loader(rows: int = 22, **options: Any) -> ResumableLoader:
    return ResumableLoader(Dataset.from_dict({"n": list(range(rows))}), 4, numbers, seed=7, **options)


def test_each_epoch_is_another_permutation() -> None:
    one = loader()
    first, second = list(one), list(one)
    assert len(first) == len(one) == 6
    assert sorted(chain.from_iterable(first)) == list(range(22))
    assert sorted(chain.from_iterable(second)) == list(range(22))
    assert first != second
    assert first == list(loader())


@pytest.mark.parametrize("epoch_batches", [None, 4])
@pytest.mark.parametrize(
    ("stop", "num_workers"), [(1, 0), (3, 0), (3, 1), (4, 0), (5, 0), (6, 0), (7, 0), (11, 0)]
)
def test_resumes_after_the_last_batch_used(stop: int, epoch_batches: int | None, num_workers: int) -> None:

    def stream(source: ResumableLoader) -> Any:
        while True:
            yield from source

    length = 14
    whole = list(islice(stream(loader(epoch_batches=epoch_batches)), length))
    begun = loader(epoch_batches=epoch_batches, num_workers=num_workers)
    running = stream(begun)
    first = list(islice(running, stop))
    resumed = loader(epoch_batches=epoch_batches)
    resumed.load_state_dict(begun.state_dict())
    assert first + list(islice(stream(resumed), length - stop)) == whole
    running.close()


def test_a_last_batch_of_one_row_is_dropped() -> None:
    assert [len(batch) for batch in loader(rows=9)] == [4, 4]
    assert [len(batch) for batch in loader(rows=10)] == [4, 4, 2]


def test_the_global_random_state_is_unchanged() -> None:
    import torch

    state = torch.get_rng_state()
    list(loader())
    assert torch.equal(torch.get_rng_state(), state)
