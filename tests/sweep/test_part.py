"""Parts of a sweep, one for each machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.errors import ConfigError
from sts_lightning.sweep.job import Job
from sts_lightning.sweep.part import part_of


@pytest.mark.parametrize("text", ["", "1", "4/4", "-1/4", "0/0", "1/2/3", "a/b", "0.5/2"])
def test_a_part_that_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match="must be a part and their number") as caught:
        part_of([], text)
    assert caught.value.key == "hydra.launcher.part"


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_parts_are_disjoint_and_of_equal_size(count: int) -> None:
    jobs = [Job(number, (), Path(str(number))) for number in range(5)]
    parts = [part_of(jobs, f"{index}/{count}") for index in range(count)]
    assert sorted(job.number for part in parts for job in part) == list(range(5))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_a_part_has_the_stages_that_its_jobs_start_from() -> None:
    stages = [Job(number, (), Path(f"stage{number}"), stage="first") for number in range(2)]
    last = Job(0, (), Path("stage2"), stage="second", needs=(stages[0].folder,))
    jobs = [
        Job(0, (), Path("0"), needs=(stages[0].folder, last.folder)),
        Job(1, (), Path("1"), needs=(stages[1].folder,)),
        Job(2, (), Path("2")),
    ]
    names = [[str(job.folder) for job in part_of([*stages, last, *jobs], f"{index}/3")] for index in range(3)]
    assert names == [["stage0", "stage2", "0"], ["stage1", "1"], ["2"]]
