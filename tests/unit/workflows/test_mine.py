"""Hard negatives, against a full sort and by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.workflows import mine as module
from sts_lightning.workflows.mine import Rule, mine, nearest


def full_sort(
    similar: np.ndarray, excluded: set[int], limit: float, count: int, skip: int
) -> tuple[list[int], int | None]:
    """Neighbours of a query and the rank of the first."""
    order = sorted(set(range(len(similar))) - excluded, key=lambda one: (-similar[one], one))
    fit = [(rank, one) for rank, one in enumerate(order) if rank >= skip and similar[one] <= limit]
    neighbours = [one for _, one in fit[:count]]
    return neighbours + [-1] * (count - len(neighbours)), fit[0][0] if fit else None


@pytest.mark.parametrize("seed", range(40))
def test_nearest_equals_a_full_sort(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of multiples of 1/2 are exact: most are tied, and many equal the limit."""
    monkeypatch.setattr(module, "BLOCK", 300)
    draw = np.random.default_rng(seed)
    size = int(draw.integers(5, 90))
    candidates = int(draw.integers(1, size + 1))
    vectors = (draw.integers(-1, 2, (size, 4)) / 2).astype(np.float32)
    queries = draw.choice(size, int(draw.integers(1, size + 1)), replace=False)
    excluded = np.stack([draw.integers(0, len(queries), 60), draw.integers(0, candidates, 60)], axis=1)
    limits = draw.integers(-2, 5, len(queries)) / 4
    count, skip = int(draw.integers(1, 5)), int(draw.integers(0, 20))
    found, products, ranks = nearest(vectors, candidates, queries, excluded, limits, count, skip)
    similar = vectors[queries] @ vectors[:candidates].T
    for query in range(len(queries)):
        out = set(excluded[excluded[:, 0] == query, 1].tolist())
        expected, rank = full_sort(similar[query], out, limits[query], count, skip)
        assert found[query].tolist() == expected
        assert rank in (None, ranks[query])
        real = found[query] >= 0
        assert products[query][real].tolist() == similar[query][found[query][real]].tolist()


class Angles:
    """Encoder of texts that end with an angle in degrees."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        self.asked += sentences
        angles = np.deg2rad([float("".join(filter(str.isdigit, text))) for text in sentences])
        return 3 * np.stack([np.cos(angles), np.sin(angles)], axis=1)


class Numbered(Angles):
    """Encoder of any texts: each is at its own angle."""

    def encode(self, sentences: Sequence[str], /) -> np.ndarray:
        self.asked += sentences
        return np.stack([np.cos(np.arange(len(sentences))), np.sin(np.arange(len(sentences)))], axis=1)


ANY = Rule(negatives=1, range_min=0, range_max=None, relative_margin=-2.0, max_score=None)

Pairs = list[tuple[str, str]]


def rows(pairs: Pairs, corpus: Sequence[str] = (), **rule: Any) -> list[tuple[str, ...]]:
    usual = {"negatives": 1, "range_min": 0, "range_max": None, "relative_margin": 0.05, "max_score": None}
    return mine(pairs, corpus, Angles(), Rule(**usual | rule))


SHARED = [
    ("A 0", "p 30"),
    ("a  0!", "p 45"),
    ("b 200", "c 33"),
    ("d 60", "a 0"),
    ("e 200", "f 50"),
    ("g 200", "h 70"),
    ("i 200", "d 60"),
]


@pytest.mark.parametrize(
    ("rule", "negatives"),
    [
        ({"relative_margin": 0.0}, ("f 50",)),
        ({"negatives": 2}, ("f 50", "h 70")),
        ({"relative_margin": 0.4}, ("h 70",)),
        ({"max_score": 0.5}, ("h 70",)),
        ({"range_min": 1}, ("f 50",)),
        ({"range_min": 2}, ("h 70",)),
    ],
)
def test_negatives_of_an_anchor_with_several_positives(
    rule: dict[str, Any], negatives: tuple[str, ...]
) -> None:
    """The positive at 45 degrees sets the limit; d, paired in reverse, and the anchor itself are out."""
    assert rows(SHARED, **rule)[:2] == [(*SHARED[0], *negatives), (*SHARED[1], *negatives)]


def test_each_distinct_sentence_is_encoded_once() -> None:
    encoder = Angles()
    pairs = [("a 0", "b 20"), ("A 0", "b 20?"), ("c 90", "d 100")]
    mined = mine(pairs, ["D 100", "e 140"], encoder, Rule(1, 0, None, 0.05, None))
    assert encoder.asked == ["b 20", "d 100", "e 140", "a 0", "c 90"]
    assert mined == [("a 0", "b 20", "d 100"), ("A 0", "b 20?", "d 100"), ("c 90", "d 100", "e 140")]


@pytest.mark.parametrize(
    "texts",
    [
        ["How do I read it in C?", "How do I read it in C++?", "How do I read it in C#?"],
        ["1.5 mg", "15 mg", "-15 mg", "15 %"],
        ["When is x > 0?", "When is x < 0?"],
        ["reply to \U0001f600", "reply to \U0001f621"],
        ["5\u00b2 m", "52 m"],
        ["Gro\u00dfe Ma\u00dfe", "Gro\u00dfe Masse"],
        ["?", "!"],
    ],
)
def test_signs_tell_sentences_apart(texts: list[str]) -> None:
    encoder = Numbered()
    mine([(text, f"answer {number}") for number, text in enumerate(texts)], ["more"], encoder, ANY)
    assert set(texts) < set(encoder.asked)


@pytest.mark.parametrize(
    "texts",
    [["How are you?", "how are  you", "HOW ARE YOU !", "How\nare you..."], ["Caf\u00e9", "cafe\u0301"]],
)
def test_case_white_space_and_final_punctuation_do_not(texts: list[str]) -> None:
    encoder = Numbered()
    mine([(text, f"answer {number}") for number, text in enumerate(texts)], ["more"], encoder, ANY)
    assert [text for text in encoder.asked if text in texts] == texts[:1]


APART = [("a 0", "b 20"), ("c 90", "d 100"), ("e 180", "f 50")]


def test_pairs_with_too_few_negatives_are_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The cosine of the last pair is -0.643; the margin is below that, which leaves out 52 degrees."""
    full = [(*APART[0], "d 100"), (*APART[1], "b 20"), (*APART[2], "b 20")]
    caplog.set_level("INFO")
    assert rows(APART, ["g 52"], max_score=0.5, range_max=3) == full
    assert "pairs: 3 rows read, 3 kept" in caplog.text
    assert (
        "medians: cosine of the positives 0.940, of the negatives -0.174, rank of the first 3" in caplog.text
    )
    assert rows(APART, ["g 52"], max_score=-0.5) == full[2:]
    assert "2 dropped: too few candidates within --relative-margin and --max-score, 1 kept" in caplog.text
    assert len(rows(APART, ["g 52"], range_max=2)) == 2
    assert "1 dropped: negatives only beyond --range-max, 2 kept" in caplog.text
    with pytest.raises(DataError, match="no pair has 5 negatives"):
        rows(APART, negatives=5)


def test_anchors_are_queries_and_candidates_documents() -> None:
    """A text that is both has two vectors: a query lies 90 degrees from the document of the same text."""

    class ByRole(Angles):
        def encode(self, sentences: Sequence[str], /, prompt: str = "") -> np.ndarray:
            turn = 90 if prompt == "query" else 0
            assert prompt
            return super().encode([f"{prompt} {(int(text.split()[-1]) + turn)}" for text in sentences])

    pairs = [("a 0", "b 90"), ("c 60", "d 150"), ("b 90", "e 180")]
    corpus = ["near a 70", "near c 130", "near b 195"]
    mined = mine(pairs, corpus, ByRole(), Rule(1, 0, None, 0.0, None), by_role=True)
    assert [row[2] for row in mined] == ["near a 70", "near c 130", "near b 195"]
