"""A data root in SentEval's layout."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.data.readers.sts_sets import STS_YEARS


def stsb_row(first: str, second: str, score: str) -> str:
    return "\t".join(["genre", "file", "year", "1", score, first, second, "surplus"])


def sick_row(first: str, second: str, score: str) -> str:
    return "\t".join(["1", first, second, score, "NEUTRAL"])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root with all files; each STS subset has two scored pairs and an unscored one."""
    folder = tmp_path / "senteval"
    folder.mkdir()
    (folder / "counts.json").write_text("{}")
    for year, subsets in STS_YEARS.items():
        place = folder / "STS" / f"{year}-en-test"
        place.mkdir(parents=True)
        for subset in subsets:
            (place / f"STS.input.{subset}.txt").write_text(
                f"{year} one\tother  one\n{subset} two\tb\textra\nthree\tc\n"
            )
            (place / f"STS.gs.{subset}.txt").write_text("4.5\n\n0\n")
    (folder / "STS" / "STSBenchmark").mkdir()
    (folder / "SICK").mkdir()
    test = [("A dog, barks.", "A cat."), ("p", "q")]
    for split in ("train", "dev", "test"):
        rows = (
            [("b", "c", "1.0"), ("Cat", "Dog", "5.0")]
            if split != "test"
            else [(*p, str(i)) for i, p in enumerate(test)]
        )
        if split == "train":
            rows += [("A cat.", "A dog, barks.", "2.0"), ("a CAT", "a dog barks", "2.5"), ("n", "m", "3.0")]
        text = "\n".join(stsb_row(*row) for row in rows)
        (folder / "STS" / "STSBenchmark" / f"sts-{split}.csv").write_text(text)
    for name in ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt"):
        rows = [("u", "v", "1"), ("p", "q", "4.2"), ("w", "x", "5")]
        if name == "SICK_test_annotated.txt":
            rows = rows[1:]
        text = "\n".join(["pair_ID\tA\tB\tscore\tjudgment", *(sick_row(*row) for row in rows)])
        (folder / "SICK" / name).write_text(text + "\n")
    return tmp_path
