from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.papers.classification import (
    PROBING_TASKS,
    load_probing_tasks,
    load_transfer_tasks,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root with small files of every task."""
    files = {
        "STS/.keep": "",
        "MR/rt-polarity.neg": b"not good at all\nbad\n",
        "MR/rt-polarity.pos": "a na\xefve  joy\n\n".encode("latin-1"),
        "SST/binary/sentiment-train": "fine film\t1\ndull\t0\n",
        "SST/binary/sentiment-dev": "fine\t1\n",
        "SST/binary/sentiment-test": "dull\t0\n",
        "TREC/train_5500.label": "LOC:city Where is it ?\nNUM:date When ?\n",
        "TREC/TREC_10.label": "HUM:ind Who \xe9 ?\n".encode("latin-1"),
        "MRPC/msr_paraphrase_train.txt": "Quality\t#1\t#2\tA\tB\n1\t7\t8\tOne text\tAnother one\n",
        "MRPC/msr_paraphrase_test.txt": 'Quality\t#1\t#2\tA\tB\n0\t7\t8\tA "b\ttext\n',
        "probing/past_present.txt": "\n".join(
            ["tr\tPAST\tHe ran .", "va\tPRES\tHe runs .", "te\tPAST\tIt was .", "tr\tPRES\tI am ."]
        ),
    }
    for name, content in files.items():
        path = tmp_path / "senteval" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (tmp_path / "senteval" / "counts.json").write_text("{}")
    return tmp_path


def test_binary_tasks_are_in_sentevals_order(root: Path) -> None:
    (task,) = load_transfer_tasks(root, ["MR"])
    # By the number of words, then by class; the empty line is a full stop; one file is Latin-1.
    assert task.train.sentences == [("bad",), (".",), ("a naïve joy",), ("not good at all",)]
    assert task.train.labels == [0, 1, 1, 0]
    assert task.dev is None
    assert task.test is None


def test_tasks_with_splits(root: Path) -> None:
    sst, trec, mrpc = load_transfer_tasks(root, ["SST2", "TREC", "MRPC"])
    assert (sst.train.labels, sst.dev and sst.dev.labels, sst.test and sst.test.labels) == ([0, 1], [1], [0])
    assert trec.train.sentences == [("When ?",), ("Where is it ?",)]
    assert trec.train.labels == [5, 4]
    assert trec.test is not None
    assert trec.test.sentences == [("Who é ?",)]
    assert mrpc.train.sentences == [("One text", "Another one")]
    assert mrpc.test is not None
    assert mrpc.test.sentences == [('A "b', "text")]


def test_files_without_a_header_lose_no_row(root: Path) -> None:
    before = load_transfer_tasks(root, ["MRPC"])
    path = next(root.rglob("MRPC/msr_paraphrase_train.txt"))
    path.write_text(path.read_text().partition("\n")[2])
    after = load_transfer_tasks(root, ["MRPC"])
    assert [task.train for task in after] == [task.train for task in before]


def test_probing_format(root: Path) -> None:
    (task,) = load_probing_tasks(root, ["Tense"])
    assert task.train.sentences == [("He ran .",), ("I am .",)]
    assert task.train.labels == [0, 1]
    assert task.dev is not None
    assert task.dev.labels == [1]
    assert task.test is not None
    assert task.test.labels == [0]
    assert len(PROBING_TASKS) == 10


@pytest.mark.parametrize(
    ("file", "text", "task", "message"),
    [
        (
            "SST/binary/sentiment-dev",
            "fine\t2\n",
            "SST2",
            r"sentiment-dev, line 1: the class '2' is not one of 0, 1",
        ),
        ("SST/binary/sentiment-dev", "fine 1\n", "SST2", r"sentiment-dev, line 1: "),
        ("TREC/TREC_10.label", "HUM:ind\n", "TREC", r"TREC_10.label, line 1: a sentence is empty"),
        (
            "probing/past_present.txt",
            "xx\tPAST\tHe ran .\n",
            "Tense",
            r"line 1: the split 'xx' is not one of tr",
        ),
        ("probing/past_present.txt", "tr\tPAST\tHe ran .\n", "Tense", "a split has no rows"),
        (
            "probing/past_present.txt",
            "tr\tA\tHe ran .\nva\tB\tx\nte\tA\ty\n",
            "Tense",
            r"line 2: the class 'B' is not one of A",
        ),
    ],
)
def test_broken_files_are_named(root: Path, file: str, text: str, task: str, message: str) -> None:
    (root / "senteval" / file).write_text(text)
    with pytest.raises(DataError, match=message):
        (load_probing_tasks if task in PROBING_TASKS else load_transfer_tasks)(root, [task])


def test_unknown_and_missing(root: Path) -> None:
    with pytest.raises(
        DataError, match="unknown task XY; the tasks are MR, CR, SUBJ, MPQA, SST2, TREC, MRPC"
    ):
        load_transfer_tasks(root, ["XY"])
    with pytest.raises(DataError, match=r"custrev.pos: cannot be read"):
        load_transfer_tasks(root, ["CR"])


def test_files_of_known_size(root: Path) -> None:
    (root / "senteval" / "counts.json").unlink()
    for task, file in (
        ("MR", "MR/rt-polarity.pos"),
        ("SST2", "SST/binary/sentiment-train"),
        ("TREC", "TREC/train_5500.label"),
        ("MRPC", "MRPC/msr_paraphrase_train.txt"),
    ):
        with pytest.raises(DataError) as caught:
            load_transfer_tasks(root, [task])
        assert caught.value.path == root / "senteval" / file
