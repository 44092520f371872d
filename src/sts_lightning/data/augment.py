"""Changes to the tokens of a view."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from sts_lightning.errors import ConfigError

Augmentation = Callable[[list[int], Sequence[int]], list[int]]
"""From token ids, and for each whether it is a special token (1) or not (0), to token ids."""

OFFICIAL_LIMIT = 10
"""Below which ESimCSE's code keeps the number of repeated sub-words."""


class Repetition:
    r"""Repeats some sub-words of a sentence in place, so that its length tells nothing (ESimCSE, Sec. 3.1).

    The number of repeated sub-words is uniform on 0, ..., max(2, int(rate N)) for a sentence of N
    sub-words, and their positions are distinct. The draw depends on the seed and the sentence alone, so a
    sentence is the same in every epoch, as in the papers' code, and in a resumed run.

    Deviations from the papers' code, which ``official`` switches on: it counts the special tokens in N,
    draws from 0, ..., min(10, int(rate N)) - 1, and leaves sentences with int(rate N) = 0 alone.

    Args:
        rate: Highest share of sub-words to repeat, in [0, 1].
        seed: Seed of the draws.
        official: Draw as the papers' code.

    Raises:
        ConfigError: The rate is out of range.
    """

    def __init__(self, rate: float, seed: int, official: bool = False) -> None:
        if not 0 <= rate <= 1:
            raise ConfigError(f"data.repetition must lie in [0, 1], got {rate}.")
        self.rate = rate
        self.seed = seed
        self.official = official

    def __call__(self, ids: list[int], special: Sequence[int]) -> list[int]:
        """The token ids with repetitions; special tokens are never repeated."""
        places = [place for place, is_special in enumerate(special) if not is_special]
        rng = random.Random(f"{self.seed} {ids}")
        if self.official:
            limit = min(OFFICIAL_LIMIT, int(self.rate * len(ids)))
            count = rng.randrange(limit) if limit else 0
        else:
            count = rng.randint(0, max(2, int(self.rate * len(places))))
        repeated = set(rng.sample(places, min(count, len(places))))
        return [token for place, token in enumerate(ids) for _ in range(2 if place in repeated else 1)]
