"""The part of a sweep that one of several machines runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from sts_lightning.errors import ConfigError
from sts_lightning.sweep.job import Job

KEY = "hydra.launcher.part"


@dataclass(frozen=True)
class Part:
    """Every ``count``-th job of a sweep, from job ``index``, so that parts are of equal size and disjoint.

    Attributes:
        index: Number of the part, from 0.
        count: Number of parts.
    """

    index: int = 0
    count: int = 1

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a part such as ``0/4``, the first of four.

        Raises:
            ConfigError: The text is something else, or there is no such part.
        """
        found = re.fullmatch(r"(\d+)/(\d+)", text)
        if found is None or not int(found[1]) < int(found[2]):
            raise ConfigError(
                f"{KEY}={text} must be a part and their number, the first of four as 0/4, the last as 3/4.",
                key=KEY,
            )
        return cls(int(found[1]), int(found[2]))

    def of_jobs(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the jobs of this part, and the shared stages that they start from, in the order given.

        Args:
            jobs: All jobs of the sweep, the same for each part, whatever has finished.
        """
        own = [job for job in jobs if job.stage is None][self.index :: self.count]
        needed = {path for job in own for path in job.needs}
        return [job for job in jobs if (job.folder in needed if job.stage is not None else job in own)]
