"""``dev=stsb_clean``: what is in it, and what training leaves out for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.core.choices import SentEvalText
from sts_lightning.core.errors import DataError
from sts_lightning.data.dev_and_tests import DevAndTests
from sts_lightning.data.sentences import sentences
from sts_lightning.data.sts_train import sts_train
from sts_lightning.data.table import Table
from tests.support.data_modules import data_module
from tests.unit.data.conftest import stsb_row

DEV = [("b", "c", "1.0"), ("Cat", "Dog", "5.0"), ("q", "p", "3.0"), ("DOG.", "cat", "2.0")]
"""The third is in a test set, the last repeats the second."""


@pytest.fixture
def stsb(root: Path) -> Path:
    """The folder of STS-B."""
    folder = root / "senteval" / "STS" / "STSBenchmark"
    (folder / "sts-dev.csv").write_text("\n".join(stsb_row(*row) for row in DEV))
    return folder


@pytest.mark.parametrize("text", ["raw", "prepared"])
def test_what_is_left_of_sts_b_dev(root: Path, stsb: Path, text: SentEvalText) -> None:
    data = data_module(sts_train, str(root), batch_size=2, seed=0, dev="stsb_clean", senteval_text=text)
    data.setup()
    expected = [("b", "c"), ("Cat", "Dog")] if text == "raw" else [("b", "c"), ("cat", "dog")]
    assert data.dev.pairs == expected
    assert data.dev["label"][:] == [1.0, 5.0]
    [count] = [count for count in data.counts if count.source == "STS-B dev"]
    assert count.dropped == {"in a test set (normalized)": 1, "in the dev set before": 1}
    assert (count.read, count.kept) == (4, 2)


def test_training_leaves_out_its_pairs(root: Path, stsb: Path) -> None:
    path = stsb / "sts-train.csv"
    path.write_text("\n".join([path.read_text(), stsb_row("dog", "cat!", "2.0"), stsb_row("x", "y", "2.0")]))
    data = data_module(sts_train, str(root), batch_size=2, seed=0, dev="stsb_clean")
    data.setup()
    assert ("x", "y") in data.train.pairs
    assert not {("dog", "cat!"), ("Cat", "Dog"), ("b", "c")} & {*data.train.pairs}
    assert data.sources[0].dropped["in the dev set"] == 3
    plain = data_module(sts_train, str(root), batch_size=2, seed=0)
    plain.setup()
    assert all("in the dev set" not in count.dropped for count in plain.counts)


def test_test_pairs_of_ones_own_are_left_out(root: Path, stsb: Path) -> None:
    stsb_dev = stsb / "sts-dev.csv"
    stsb_dev.write_text("\n".join([stsb_dev.read_text(), stsb_row("k", "l", "4.0")]))
    path, lines = root / "mine.csv", root / "sentences.txt"
    path.write_text("sentence1,sentence2,score\nC!,b,1\nsome,other,2\n")
    lines.write_text("one\ntwo\nthree\n")
    data = data_module(sentences, str(root), path=str(lines), dev="stsb_clean", test_path=str(path))
    data.setup()
    assert data.dev.pairs == [("Cat", "Dog"), ("k", "l")]


@pytest.mark.parametrize("hard", ["sentence3", "negatives"])
def test_examples_whose_anchor_is_in_a_dev_pair_are_dropped(root: Path, stsb: Path, hard: str) -> None:
    columns = {
        "sentence1": ["dog", "b", "u", "v"],
        "sentence2": ["x", "C", "x", "x"],
        hard: [[text] if hard == "negatives" else text for text in ("Cat", "y", "y", "cat")],
    }
    splits = DevAndTests(str(root), dev="stsb_clean").complete(Table(columns).read_from("mine"), True)
    assert splits.train["sentence1"] == ["u", "v"]
    assert splits.train.sources[0].dropped == {"in the dev set": 2}


def test_too_little_may_be_left(root: Path, stsb: Path) -> None:
    (stsb / "sts-dev.csv").write_text("\n".join(stsb_row(*row) for row in DEV[1:]))
    with pytest.raises(DataError, match="dev=stsb_clean: 1 scored pair without two different scores"):
        DevAndTests(str(root), dev="stsb_clean").complete(Table({"sentence1": ["a"]}), True)


def test_an_earlier_dev_set_is_refused(root: Path) -> None:
    with pytest.raises(ValueError, match=r"^dev must be one of stsb, stsb_clean, got"):
        DevAndTests(str(root), dev="suite")  # type: ignore[typeddict-item]
