"""Augmentation of the tokens of a view."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

Augmentation = Callable[[list[int], Sequence[int]], list[int]]
"""Map from token ids, and a mask of their special tokens (1) and others (0), to token ids."""

OFFICIAL_LIMIT = 10
"""Exclusive upper bound of the number of repeated sub-words in ESimCSE's code."""


class Repetition:
    r"""Repeat some sub-words in place, so that sentence length carries no signal (ESimCSE, Sec. 3.1).

    The number of repeated sub-words is uniform on 0, ..., max(2, int(rate N)) for a sentence of N
    sub-words, and their positions are distinct. The draw depends on the seed and the sentence alone, so a
    sentence is the same in every epoch, as in the papers' code, and in a resumed run.

    ``official`` draws as the papers' code does: N includes the special tokens, the number is uniform on
    0, ..., min(10, int(rate N)) - 1, and sentences with int(rate N) = 0 are left unchanged.

    Args:
        rate: Highest fraction of sub-words to repeat, in [0, 1].
        seed: Random seed of the draws.
        official: Whether to draw as in the papers' code.

    Raises:
        ValueError: The rate is out of range.
    """

    def __init__(self, rate: float, seed: int, official: bool = False) -> None:
        if not 0 <= rate <= 1:
            raise ValueError(f"rate must lie in [0, 1], got {rate}.")
        self.rate = rate
        self.seed = seed
        self.official = official

    def __call__(self, ids: list[int], special: Sequence[int]) -> list[int]:
        """Return the token ids with repetitions; special tokens are never repeated."""
        places = [place for place, is_special in enumerate(special) if not is_special]
        rng = random.Random(f"{self.seed} {ids}")
        if self.official:
            limit = min(OFFICIAL_LIMIT, int(self.rate * len(ids)))
            count = rng.randrange(limit) if limit else 0
        else:
            count = rng.randint(0, max(2, int(self.rate * len(places))))
        repeated = set(rng.sample(places, min(count, len(places))))
        return [token for place, token in enumerate(ids) for _ in range(2 if place in repeated else 1)]
