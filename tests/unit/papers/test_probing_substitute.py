from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from sts_lightning.papers.classification import load_probing_tasks
from tools.probing_substitute import LENGTHS, balanced, bigram_shifts, lengths, main, word_contents


def test_lengths_and_words_follow_senteval() -> None:
    sentences = [["word"] * count for low, high in LENGTHS for count in (low, high)]
    assert [label for label, _ in lengths(sentences)] == [label for label in "012345" for _ in range(2)]
    common = [[f"w{n}"] for n in range(300) for _ in range(9)]  # the most frequent words are no targets
    once, twice, both = ["target", "a"], ["target", "target"], ["target", "other"]
    others = [["other"]] * 3
    assert word_contents([*common, once, twice, both, *others]) == [
        ("target", "target a"),
        *[("other", "other")] * 3,
    ]


def test_a_shift_swaps_two_words_inside() -> None:
    words = ["one", "two", "three", "four", "five", "."]
    examples = bigram_shifts(
        [words] * 200 + [['"', "two", "three"], ["the", "the", "the"]], np.random.default_rng(0)
    )
    assert len(examples) == 200
    shifted = {sentence for label, sentence in examples if label == "I"}
    assert shifted == {"one three two four five .", "one two four three five .", "one two three five four ."}
    assert {sentence for label, sentence in examples if label == "O"} == {" ".join(words)}


def test_classes_are_balanced_in_each_split() -> None:
    lines = balanced([(str(n % 2), str(n)) for n in range(30_000) if n % 3], np.random.default_rng(0))
    counts = Counter(tuple(line.split("\t")[:2]) for line in lines)
    assert counts == {("tr", "0"): 5000, ("tr", "1"): 5000} | {
        (split, label): 500 for split in ("va", "te") for label in "01"
    }
    assert len({line.split("\t")[2] for line in lines}) == len(lines)


def test_the_files_read_as_senteval_s(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = [f"{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}word" for n in range(600)]
    text = [" ".join(rng.choice(words, size=int(rng.integers(5, 29)))) for _ in range(8000)]
    (tmp_path / "text.txt").write_text("\n".join(text))
    main(str(tmp_path / "text.txt"), str(tmp_path))
    names = ("Length", "WordContent", "BigramShift")
    for task, classes in zip(load_probing_tasks(tmp_path, names), (6, 50, 2), strict=True):
        assert task.test is not None
        assert set(task.train.labels) == set(range(classes)) >= set(task.test.labels)
