"""Repeated sub-words, which make a second view of a sentence longer."""

from __future__ import annotations

import random
from collections.abc import Sequence

PAPER_CODE_LIMIT = 10
"""Exclusive upper bound of the number of repeated sub-words in ESimCSE's code."""


class WordRepetition:
    r"""Repeat some sub-words in position, so that sentence length carries no signal (ESimCSE, Sec. 3.1).

    The number of repeated sub-words is uniform on 0, ..., max(2, int(rate N)) for a sentence of N
    sub-words, and their positions are distinct. The draw depends on the seed and the sentence alone, so a
    sentence is the same in every epoch, as in the papers' code, and in a resumed run.

    Args:
        rate: Highest fraction of sub-words to repeat, in [0, 1].
        seed: Random seed of the draws.
    """

    def __init__(self, rate: float, seed: int) -> None:
        self.rate = rate
        self.seed = seed

    def __call__(self, ids: list[int], special: Sequence[int]) -> list[int]:
        """Return the token ids with repetitions; special tokens are never repeated."""
        positions = [position for position, is_special in enumerate(special) if not is_special]
        rng = random.Random(f"{self.seed} {ids}")
        count = self.draw_count(rng, len(positions), len(ids))
        repeated = set(rng.sample(positions, min(count, len(positions))))
        return [token for position, token in enumerate(ids) for _ in range(2 if position in repeated else 1)]

    def draw_count(self, rng: random.Random, words: int, tokens: int) -> int:
        """Draw the number of repeated sub-words of a sentence.

        Args:
            rng: Random numbers of the sentence.
            words: Number N of its sub-words.
            tokens: The same with special tokens.
        """
        return rng.randint(0, max(2, int(self.rate * words)))


class PaperCodeWordRepetition(WordRepetition):
    """Word repetition whose number is drawn as in ESimCSE's code.

    It is uniform on 0, ..., min(10, int(rate N)) - 1, where N includes the special tokens. Sentences with
    int(rate N) = 0 are left unchanged.
    """

    def draw_count(self, rng: random.Random, words: int, tokens: int) -> int:
        """Draw the number of repeated sub-words of a sentence; see `WordRepetition.draw_count`."""
        limit = min(PAPER_CODE_LIMIT, int(self.rate * tokens))
        return rng.randrange(limit) if limit else 0
