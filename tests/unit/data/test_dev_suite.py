"""Dev pairs of several kinds: what is in them, and what training leaves out for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.core.choices import SentEvalText
from sts_lightning.core.errors import DataError
from sts_lightning.data import dev_suite
from sts_lightning.data.dev_suite import load_dev_suite, without_dev_pairs
from sts_lightning.data.sentences import sentences
from sts_lightning.data.sts_train import sts_train
from sts_lightning.data.table import SourceCount, Table, parts_of
from tests.support.data_modules import data_module
from tests.unit.data.conftest import stsb_row

STSB_TRAIN = [
    ("main-news", "MSRpar", "Held out one.", "held two", "1.0"),
    ("main-news", "MSRpar", "HELD two", "held out one", "2.0"),  # the same pair, the other way around
    ("main-news", "MSRpar", "held three", "held four", "4.0"),
    ("main-news", "MSRpar", "P!", "q", "4.0"),  # in the test set of STS-B
    ("main-captions", "MSRvid", "train one", "train two", "1.0"),
    ("main-captions", "MSRvid", "train three", "train four", "5.0"),
    ("main-captions", "MSRvid", "premise 1", "hypothesis 1", "5.0"),  # also an NLI pair
]


@pytest.fixture
def suite_root(root: Path) -> Path:
    """A data root with what the suite is made of besides."""
    folder = root / "senteval"
    text = "\n".join("\t".join([*row[:2], "year", "1", row[4], *row[2:4]]) for row in STSB_TRAIN)
    (folder / "STS" / "STSBenchmark" / "sts-train.csv").write_text(text)
    dev = [("b", "c", "1.0"), ("Cat", "Dog", "5.0"), ("q", "p", "3.0")]  # the last: in a test set
    text = "\n".join(stsb_row(*row) for row in dev)
    (folder / "STS" / "STSBenchmark" / "sts-dev.csv").write_text(text)
    header = "pair_ID\tA\tB\tscore\tjudgment\n"
    (folder / "SICK" / "SICK_trial.txt").write_text(f"{header}1\tu\tv\t1\tNEUTRAL\n2\ti\tj\t4.2\tNEUTRAL\n")
    (folder / "MRPC").mkdir()
    rows = ["1\t1\t2\tsame one\tsame two", "0\t3\t4\tother one\tother two", "1\t5\t6\tcat\tdog"]
    for split in ("train", "test"):
        text = "\n".join(["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *rows]) + "\n"
        (folder / "MRPC" / f"msr_paraphrase_{split}.txt").write_text(text)
    (root / "nli").mkdir()
    classes = ("entailment", "neutral", "contradiction")
    nli = [f"premise {row}\thypothesis {row}\t{classes[row % 3]}" for row in range(9)]
    (root / "nli" / "nli_pairs.tsv").write_text("\n".join(["premise\thypothesis\tlabel", *nli]) + "\n")
    return root


def test_parts_by_hand(suite_root: Path) -> None:
    counts: list[SourceCount] = []
    dev = load_dev_suite(str(suite_root), "raw", counts)
    found = {name: dev[rows].pairs for name, rows in parts_of(dev).items()}
    assert found == {
        "stsb": [("b", "c"), ("Cat", "Dog")],
        "sick": [("u", "v"), ("i", "j")],
        "news": [("Held out one.", "held two"), ("held three", "held four")],
        "nli": [(f"premise {row}", f"hypothesis {row}") for row in range(9)],
        "paraphrase": [("other one", "other two"), ("same one", "same two")],  # by their number of words
    }
    graded = [1.0, 5.0, 0.0, 4.0, 1.0, 4.0]
    assert dev["label"][:] == [*graded, *([5.0, 2.5, 0.0] * 3), 0.0, 5.0]
    dropped = [list(count.dropped.values()) for count in counts]
    assert dropped == [[1, 0, 0], [0, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0]]
    assert [count.read for count in counts] == [3, 2, 4, 9, 3]


@pytest.mark.parametrize("text", ["raw", "prepared"])
def test_clean_sts_b_dev_is_what_is_left_of_it(suite_root: Path, text: SentEvalText) -> None:
    data = data_module(sts_train, str(suite_root), batch_size=2, seed=0, dev="stsb_clean", senteval_text=text)
    data.setup()
    expected = [("b", "c"), ("Cat", "Dog")] if text == "raw" else [("b", "c"), ("cat", "dog")]
    assert data.dev.pairs == expected
    assert data.dev["label"][:] == [1.0, 5.0]
    assert parts_of(data.dev) == {}
    [count] = [count for count in data.counts if count.source == "dev part stsb"]
    assert (count.read, count.kept) == (3, 2)


def test_training_leaves_out_the_pairs_of_clean_sts_b_dev(suite_root: Path) -> None:
    path = suite_root / "senteval" / "STS" / "STSBenchmark" / "sts-train.csv"
    path.write_text(path.read_text() + "\n" + stsb_row("dog", "cat!", "2.0"))
    data = data_module(sts_train, str(suite_root), batch_size=2, seed=0, dev="stsb_clean")
    data.setup()
    assert ("train one", "train two") in data.train.pairs
    assert ("dog", "cat!") not in data.train.pairs
    assert data.sources[0].dropped["in the dev set"] == 1


def test_training_leaves_out_the_pairs_of_the_suite(suite_root: Path) -> None:
    data = data_module(sts_train, str(suite_root), batch_size=2, seed=0, dev="suite")
    data.setup()
    assert ("train one", "train two") in data.train.pairs
    kept = {frozenset(pair) for pair in data.train.pairs}
    assert not kept & {frozenset(pair) for pair in data.dev.pairs}
    [stsb, sick] = data.sources
    assert (stsb.dropped["in the dev set"], stsb.kept) == (4, 3)
    assert sick.dropped["in the dev set"] == 1
    assert len(data.train) == stsb.kept + sick.kept


def test_test_pairs_of_ones_own_are_left_out(suite_root: Path) -> None:
    path = suite_root / "mine.csv"
    path.write_text("sentence1,sentence2,score\nHypothesis 3,premise 3,1\nsome,other,2\n")
    data = data_module(
        sentences, str(suite_root), path=_sentences(suite_root), dev="suite", test_path=str(path)
    )
    data.setup()
    kept = data.dev.pairs
    assert ("premise 2", "hypothesis 2") in kept
    assert ("premise 3", "hypothesis 3") not in kept


def _sentences(root: Path) -> str:
    path = root / "sentences.txt"
    path.write_text("one\ntwo\nthree\n")
    return str(path)


def test_a_sample_is_the_same_each_time(suite_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev_suite, "SAMPLE", 4)
    first, second = (load_dev_suite(str(suite_root), "raw", []) for _ in range(2))
    assert first.pairs == second.pairs
    rows = parts_of(first)["nli"]
    assert rows.stop - rows.start == 4


def test_examples_with_a_dev_pair_among_three_sentences_are_dropped() -> None:
    train = Table(
        {
            "sentence1": ["a", "b", "c", "d"],
            "sentence2": ["x", "a", "x", "x"],
            "sentence3": ["y", "y", "a", "y"],
        }
    )
    dev = Table({"sentence1": ["a", "x"], "sentence2": ["b", "c"], "label": [0.0, 1.0]})
    left = without_dev_pairs(train.read_from("mine"), dev)
    assert left["sentence1"] == ["a", "d"]
    assert left.sources[0].dropped == {"in the dev set": 2}


@pytest.mark.parametrize(
    ("file", "part"),
    [
        ("nli/nli_pairs.tsv", "pairs"),
        ("senteval/MRPC/msr_paraphrase_train.txt", "transfer"),
        ("senteval/SICK/SICK_trial.txt", "sts"),
    ],
)
def test_a_missing_file_is_named_with_the_command_that_fetches_it(
    suite_root: Path, file: str, part: str
) -> None:
    (suite_root / file).unlink()
    with pytest.raises(DataError) as caught:
        load_dev_suite(str(suite_root), "raw", [])
    assert Path(file).name in str(caught.value)
    assert f"sts-lightning data get {part}" in str(caught.value)


def test_an_unknown_class_is_named_with_its_line(suite_root: Path) -> None:
    path = suite_root / "nli" / "nli_pairs.tsv"
    path.write_text(path.read_text() + "a\tb\tperhaps\n")
    with pytest.raises(DataError, match=r"nli_pairs\.tsv, line 11: .*'perhaps'"):
        load_dev_suite(str(suite_root), "raw", [])


def test_dev_pairs_of_one_kind_have_no_parts(suite_root: Path) -> None:
    data = data_module(sts_train, str(suite_root), batch_size=2, seed=0)
    data.setup()
    assert parts_of(data.dev) == {}
    assert all("in the dev set" not in count.dropped for count in data.counts)
