"""Repeated sub-words, which make a second view of a sentence longer."""

from __future__ import annotations

import random
from collections.abc import Sequence

OFFICIAL_LIMIT = 10
"""Exclusive upper bound of the number of repeated sub-words in ESimCSE's code."""


class WordRepetition:
    r"""Repeat some sub-words in position, so that sentence length carries no signal (ESimCSE, Sec. 3.1).

    The number of repeated sub-words is uniform on 0, ..., max(2, int(rate N)) for a sentence of N
    sub-words, and their positions are distinct. The draw depends on the seed and the sentence alone, so a
    sentence is the same in every epoch, as in the papers' code, and in a resumed run.

    ``official`` draws as the papers' code does: N includes the special tokens, the number is uniform on
    0, ..., min(10, int(rate N)) - 1, and sentences with int(rate N) = 0 are left unchanged.

    Args:
        rate: Highest fraction of sub-words to repeat, in [0, 1].
        seed: Random seed of the draws.
        official: Whether to draw as in the papers' code.
    """

    def __init__(self, rate: float, seed: int, official: bool = False) -> None:
        self.rate = rate
        self.seed = seed
        self.official = official

    def __call__(self, ids: list[int], special: Sequence[int]) -> list[int]:
        """Return the token ids with repetitions; special tokens are never repeated."""
        positions = [position for position, is_special in enumerate(special) if not is_special]
        rng = random.Random(f"{self.seed} {ids}")
        if self.official:
            limit = min(OFFICIAL_LIMIT, int(self.rate * len(ids)))
            count = rng.randrange(limit) if limit else 0
        else:
            count = rng.randint(0, max(2, int(self.rate * len(positions))))
        repeated = set(rng.sample(positions, min(count, len(positions))))
        return [token for position, token in enumerate(ids) for _ in range(2 if position in repeated else 1)]
