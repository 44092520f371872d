"""The part of a sweep that one of several machines runs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sts_lightning.errors import ConfigError
from sts_lightning.sweep.job import Job


def part_of(jobs: Sequence[Job], part: str) -> list[Job]:
    """Return the jobs of a part, and the shared stages that they start from, in the order given.

    The parts are disjoint but for these stages, and differ by at most one job.

    Args:
        jobs: All jobs of the sweep, the same for each part, whatever has finished.
        part: A part and their number, such as ``0/4``, the first of four.

    Raises:
        ConfigError: There is no such part.
    """
    found = re.fullmatch(r"(\d+)/(\d+)", part)
    if found is None or not int(found[1]) < int(found[2]):
        raise ConfigError(
            f"hydra.launcher.part={part} must be a part and their number, the first of four as 0/4, the last "
            "as 3/4.",
            key="hydra.launcher.part",
        )
    own = [job for job in jobs if job.stage is None][int(found[1]) :: int(found[2])]
    wanted = {job.folder for job in own}.union(*(job.needs for job in own))
    return [job for job in jobs if job.folder in wanted]
