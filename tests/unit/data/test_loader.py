from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import numpy as np
import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.data.draws import DrawnTable, HardNegatives, SameClass
from sts_lightning.data.loader import PartRows, ResumableLoader, prefetched
from sts_lightning.data.table import Table


def numbers(examples: list[dict[str, Any]]) -> list[int]:
    return [example["n"] for example in examples]


def loader(
    rows: int = 22, shares: Any = None, parts: list[PartRows] | None = None, **options: Any
) -> ResumableLoader:
    parts = parts or [PartRows(shares or [(rows, rows)], 4)]
    return ResumableLoader(Table({"n": list(range(rows))}), parts, numbers, seed=7, **options)


def test_each_epoch_is_another_permutation() -> None:
    one = loader()
    first, second = list(one), list(one)
    assert len(first) == len(one) == 6
    assert sorted(chain.from_iterable(first)) == list(range(22))
    assert sorted(chain.from_iterable(second)) == list(range(22))
    assert first != second
    assert first == list(loader())


def test_the_first_epoch_over_and_over() -> None:
    expected = list(islice(loader(), 2))
    one = loader(epoch_batches=2)
    one.same_batches = True
    assert [list(one) for _ in range(3)] == [expected] * 3
    resumed = loader(epoch_batches=2)
    resumed.same_batches = True
    resumed.load_state_dict({"epoch": 5, "position": 1})
    assert list(resumed) == expected[1:]
    assert list(resumed) == expected


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


def test_weights_are_shares_of_an_epoch() -> None:
    """10 rows twice, 5 rows once, 7 rows by less than a half."""
    source = loader(shares=[(10, 20), (5, 5), (7, 3)])
    epochs = [list(chain.from_iterable(source)) for _ in range(20)]
    for rows in epochs:
        assert sorted(row for row in rows if row < 15) == sorted([*range(10), *range(10), *range(10, 15)])
        assert len({row for row in rows if row >= 15}) == sum(row >= 15 for row in rows) == 3
    halves = [frozenset(row for row in rows if row >= 15) for rows in epochs]
    assert len(set(halves)) > 5  # drawn anew
    assert set().union(*halves) == set(range(15, 22))
    assert len({tuple(rows) for rows in epochs}) == 20


def test_a_share_resumes_in_the_middle_of_an_epoch() -> None:
    shares = [(10, 25), (12, 5)]
    whole = loader(shares=shares)
    expected = [*whole, *whole]
    begun = loader(shares=shares)
    assert len(begun) == 8
    assert list(begun) == expected[:8]
    stream = iter(begun)
    assert [next(stream) for _ in range(3)] == expected[8:11]
    resumed = loader(shares=shares)
    resumed.load_state_dict(begun.state_dict())
    assert list(resumed) == expected[11:]


def test_shares_of_one_are_the_plain_order() -> None:
    assert list(loader(shares=[(10, 10), (12, 12)])) == list(loader())
    assert list(loader(shares=[(22, 22), (0, 0)])) == list(loader())  # a file that the dev split took


PARTS = [PartRows([(9, 9)], 4), PartRows([(8, 8), (5, 5)], 3)]
"""9 rows, of which one is left out, and 13, of which one is left out, too."""


def test_a_batch_has_rows_of_one_part() -> None:
    epoch = list(loader(parts=PARTS))
    first, second = ([batch for batch in epoch if (batch[0] < 9) == small] for small in (True, False))
    assert [len(batch) for batch in first] == [4, 4]
    assert [len(batch) for batch in second] == [3, 3, 3, 3]
    assert all(row < 9 for batch in first for row in batch)
    assert all(row >= 9 for batch in second for row in batch)
    rows = list(chain.from_iterable(epoch))
    assert len(set(rows)) == len(rows) == 20
    orders = [[batch[0] < 9 for batch in epoch] for epoch in (list(loader(parts=PARTS)) for _ in range(2))]
    assert orders[0] == orders[1]
    source = loader(parts=PARTS)
    # The parts alternate at random, anew in each epoch.
    assert len({tuple(batch[0] < 9 for batch in source) for _ in range(10)}) > 3


def test_parts_resume_in_the_middle_of_an_epoch() -> None:
    whole = loader(parts=PARTS)
    expected = [*whole, *whole]
    begun = loader(parts=PARTS)
    list(begun)
    stream = iter(begun)
    assert [next(stream) for _ in range(3)] == expected[6:9]
    resumed = loader(parts=PARTS)
    resumed.load_state_dict(begun.state_dict())
    assert list(resumed) == expected[9:]


def test_the_first_batches_of_a_part_have_its_sources_in_proportion() -> None:
    part = PartRows([(60, 60), (30, 15)], 5)
    assert part.first(9) == PartRows([(60, 36), (30, 9)], 5)
    assert part.first(100) == part


def test_rows_of_an_anchor_are_in_different_batches() -> None:
    # 3 anchors of 5 rows after a part of 9 rows without any; 6 rows with none of their own.
    anchors = {row: row % 3 for row in range(15)}
    source = loader(parts=[PARTS[0], PartRows([(21, 21)], 4, anchors)], rows=30)
    for epoch in (list(source), list(source)):
        batches = [batch for batch in epoch if batch[0] >= 9]
        assert sorted(map(len, batches)) == [4, 4, 4, 4, 4]  # and one row left out, as without anchors
        assert len(set(chain.from_iterable(batches))) == 20
        met = [[row % 3 for row in batch if row < 24] for batch in batches]
        assert all(len(set(found)) == len(found) for found in met)
    one = PartRows([(10, 10)], 4, dict.fromkeys(range(10), 0))  # cannot be divided
    assert sorted(chain.from_iterable(loader(parts=[one], rows=10))) == list(range(10))
    alone = PartRows([(22, 22)], 4, {3: 0})
    assert list(loader(parts=[alone])) == list(loader())


def test_a_frequent_anchor_is_as_often_in_every_batch() -> None:
    # One anchor in 40 of 100 rows, four in 5 each: 10 batches of 10, none of a single anchor.
    anchors = {row: 0 if row < 40 else row // 5 for row in range(60)}
    for batch in loader(parts=[PartRows([(100, 100)], 10, anchors)], rows=100):
        met = Counter(anchors.get(row, row) for row in batch)
        assert met.pop(0) == 4
        assert set(met.values()) == {1}


def test_a_last_batch_of_one_row_is_dropped() -> None:
    assert [len(batch) for batch in loader(rows=9)] == [4, 4]
    assert [len(batch) for batch in loader(rows=10)] == [4, 4, 2]


@pytest.mark.parametrize("options", [{}, {"rows": 9}, {"epoch_batches": 2}, {"shares": [(10, 25), (12, 5)]}])
def test_the_first_epoch_is_known_before(options: dict[str, Any]) -> None:
    source = loader(**options)
    assert source.first_epoch() == list(source) == source.first_epoch()


def test_the_global_random_state_is_unchanged() -> None:
    import torch

    state = torch.get_rng_state()
    list(loader())
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("count", [0, 1, 3, 10])
def test_prefetched_items_keep_their_order(count: int) -> None:
    assert list(prefetched(iter(range(5)), count)) == [0, 1, 2, 3, 4]
    assert list(prefetched(iter([]), count)) == []


@pytest.mark.parametrize("epoch_batches", [None, 4])
def test_batches_prepared_ahead_are_the_same_and_resume_the_same(epoch_batches: int | None) -> None:
    plain, ahead = loader(epoch_batches=epoch_batches), loader(epoch_batches=epoch_batches, ahead=2)
    assert [list(plain), list(plain)] == [list(ahead), list(ahead)]
    begun = loader(epoch_batches=epoch_batches, ahead=2)
    stream = iter(begun)
    first = [next(stream), next(stream)]
    assert begun.state_dict() == {"epoch": 0, "position": 2}  # not what the thread has prepared
    resumed = loader(epoch_batches=epoch_batches, ahead=2)
    resumed.load_state_dict(begun.state_dict())
    assert [*first, *resumed] == list(loader(epoch_batches=epoch_batches))


def test_the_next_batch_is_prepared_while_this_one_is_used() -> None:
    prepared, used = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield 0
        prepared.set()
        yield 1
        assert used.wait(10)
        yield 2

    stream = prefetched(items(), 2)
    assert next(stream) == 0
    assert prepared.wait(10)
    used.set()
    assert list(stream) == [1, 2]


def test_an_error_of_the_thread_reaches_the_consumer() -> None:
    def items() -> Iterator[int]:
        yield 0
        raise DataError("broken row")

    stream = prefetched(items(), 2)
    assert next(stream) == 0
    with pytest.raises(DataError, match="broken row"):
        next(stream)


def test_a_consumer_that_stops_early_leaves_no_thread_behind() -> None:
    stream = prefetched(iter(range(1000)), 2)
    next(stream)
    stream.close()  # type: ignore[attr-defined]  # a generator
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]


POSITIVES = [1, 3, 1, 2, 4, 1, 2, 3, 1, 1, 2, 1]
"""Rows of each line."""
STARTS = np.concatenate([[0], np.cumsum(POSITIVES)]).tolist()


def of_line(rows: Iterator[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(int(np.searchsorted(STARTS, row, side="right")) - 1, []).append(row)
    return found


def test_an_epoch_has_one_row_of_each_line_and_all_in_turn() -> None:
    source = loader(STARTS[-1], parts=[PartRows([(12, 12)], 4, lines=STARTS)])
    epochs = [of_line(chain.from_iterable(source)) for _ in range(12)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(12))
        assert all(len(rows) == 1 for rows in epoch.values())
    for line, count in enumerate(POSITIVES):
        drawn = [epoch[line][0] for epoch in epochs]
        assert [set(drawn[at : at + count]) for at in range(0, 12, count)] == [
            set(range(STARTS[line], STARTS[line] + count))
        ] * (12 // count)
    assert {epochs[0][line][0] - STARTS[line] for line in (1, 3, 4, 6, 7, 10)} > {0}  # the seed decides


def test_weights_are_of_lines() -> None:
    """The first five lines twice, of the other seven three."""
    source = loader(STARTS[-1], parts=[PartRows([(5, 10), (7, 3)], 5, lines=STARTS)])
    for _ in range(3):
        found = of_line(chain.from_iterable(source))
        assert [len(found[line]) for line in range(5)] == [2] * 5
        assert all(len(set(found[line])) == min(2, POSITIVES[line]) for line in range(5))
        assert sum(len(rows) for line, rows in found.items() if line >= 5) == 3


LISTS = Table({"n": list(range(22)), "negatives": [[f"{n} {i}" for i in range(n % 5)] for n in range(22)]})


def drawing(num_workers: int = 0, ahead: int = 0, epoch_batches: int | None = None) -> ResumableLoader:
    table = DrawnTable(LISTS, {"": HardNegatives(["sentence3", "sentence4"])}, seed=7)
    return ResumableLoader(
        table, [PartRows([(22, 22)], 4)], drawn_texts, 7, num_workers, epoch_batches, ahead
    )


def drawn_texts(examples: list[dict[str, Any]]) -> list[tuple[int, str | None, str | None]]:
    return [(example["n"], example["sentence3"], example["sentence4"]) for example in examples]


def test_hard_negatives_are_drawn_anew_in_each_epoch() -> None:
    source = drawing()
    epochs = [{row[0]: row[1:] for row in chain.from_iterable(source)} for _ in range(40)]
    for n in range(22):
        drawn = [epoch[n] for epoch in epochs]
        listed = [f"{n} {i}" for i in range(n % 5)]
        assert set(chain.from_iterable(drawn)) == {*listed, *([None] if len(listed) < 2 else [])}
        assert all(one != two or one is None for one, two in drawn)
        if len(listed) > 2:
            assert len(set(drawn)) > 3


@pytest.mark.parametrize(("num_workers", "ahead"), [(0, 0), (1, 0), (0, 2)])
def test_draws_are_those_of_an_uninterrupted_run(num_workers: int, ahead: int) -> None:
    whole = drawing()
    expected = [*whole, *whole]
    begun = drawing(num_workers, ahead)
    assert list(begun) == expected[:6]
    running = iter(begun)
    assert [next(running) for _ in range(3)] == expected[6:9]
    resumed = drawing(num_workers, ahead)
    resumed.load_state_dict(begun.state_dict())
    assert list(resumed) == expected[9:]
    del running


def test_positives_of_a_class_are_all_its_other_texts() -> None:
    texts = {"a": ["x", "y", "z"], "b": ["x", "w"]}
    draw = SameClass("sentence2", texts)
    for name, text in (("a", "x"), ("a", "z"), ("b", "x"), ("b", "w")):
        counts = Counter(
            draw({"sentence1": text, "class": name}, random.Random(seed))["sentence2"] for seed in range(400)
        )
        assert set(counts) == {*texts[name]} - {text}
        assert len(counts) == 1 or min(counts.values()) > 140
