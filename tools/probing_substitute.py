"""Write three of SentEval's probing tasks from plain text: `python tools/probing_substitute.py FILE ROOT`.

Its own data (`sts-lightning data get probing`) are better: a hundred thousand examples each, and seven tasks
that need a parser. Where they cannot be fetched, these follow the rules of Length, WordContent and
BigramShift (Conneau et al. 2018, Sec. 3) with fewer examples and words, so that scores compare with each
other, not with published ones. FILE has a sentence on each line; ROOT/senteval/probing gets the tasks.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from sts_lightning.core.files import write_atomic

Example = tuple[str, str]
"""A class and a sentence."""

LENGTHS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))
"""Numbers of words of the classes of Length."""

RANKS = range(300, 3000)
"""Frequency ranks among which the words of WordContent are looked for; SentEval: from 2,000, of more text."""

WORDS = 50
SPLITS = {"tr": 10_000, "va": 1_000, "te": 1_000}


def lengths(sentences: Iterable[list[str]]) -> list[Example]:
    """Length: to which of six ranges the number of words belongs."""
    classes = {count: str(n) for n, (low, high) in enumerate(LENGTHS) for count in range(low, high + 1)}
    return [(classes[len(words)], " ".join(words)) for words in sentences]


def word_contents(sentences: list[list[str]]) -> list[Example]:
    """WordContent: which one of 50 words of middle frequency, and no other of them, occurs, once."""
    counts = Counter(word for words in sentences for word in words)
    ranked = [word for word, _ in counts.most_common(RANKS.stop)][RANKS.start :]
    targets = set([word for word in ranked if len(word) >= 4 and re.fullmatch("[a-z]+", word)][:WORDS])
    found = [(targets.intersection(words), words) for words in sentences]
    once = [(min(hits), words) for hits, words in found if len(hits) == 1]
    return [(word, " ".join(words)) for word, words in once if words.count(word) == 1]


def bigram_shifts(sentences: Iterable[list[str]], rng: np.random.Generator) -> list[Example]:
    """BigramShift: whether two words next to each other, not the first and no punctuation, were swapped."""
    examples = []
    for words in sentences:
        places = [
            i
            for i in range(1, len(words) - 1)
            if words[i].isalnum() and words[i + 1].isalnum() and words[i] != words[i + 1]
        ]
        if not places or any('"' in word for word in words):
            continue
        shifted = bool(rng.integers(2))
        if shifted:
            i = rng.choice(places)
            words = [*words[:i], words[i + 1], words[i], *words[i + 2 :]]
        examples.append(("I" if shifted else "O", " ".join(words)))
    return examples


def balanced(examples: Iterable[Example], rng: np.random.Generator) -> list[str]:
    """Return the lines of the splits, each with as many examples of every class."""
    by_class = defaultdict(list)
    for label, sentence in examples:
        by_class[label].append(sentence)
    each = {split: count // len(by_class) for split, count in SPLITS.items()}
    fewest, needed = min(map(len, by_class.values())), sum(each.values())
    if fewest < needed:  # the same share of every split
        each = {split: count * fewest // needed for split, count in each.items()}
    rows: dict[str, list[str]] = {split: [] for split in SPLITS}
    for label in sorted(by_class):
        drawn = iter(rng.permutation(by_class[label]))
        for split, count in each.items():
            rows[split] += [f"{split}\t{label}\t{next(drawn)}" for _ in range(count)]
    return [str(line) for lines in rows.values() for line in rng.permutation(lines)]


def main(file: str, root: str) -> None:
    """Write the three tasks."""
    rng = np.random.default_rng(0)
    texts = dict.fromkeys(Path(file).read_text(encoding="utf-8").splitlines())
    sentences = [words for words in map(str.split, texts) if LENGTHS[0][0] <= len(words) <= LENGTHS[-1][1]]
    tasks = {
        "sentence_length": lengths(sentences),
        "word_content": word_contents(sentences),
        "bigram_shift": bigram_shifts(sentences, rng),
    }
    folder = Path(root) / "senteval" / "probing"
    folder.mkdir(parents=True, exist_ok=True)
    for name, examples in tasks.items():
        write_atomic(folder / f"{name}.txt", "\n".join(balanced(examples, rng)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
