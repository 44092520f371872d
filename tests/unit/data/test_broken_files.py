"""Broken files of every format of the data, as a table: the error names the file, and its line or key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sts_lightning.data.dev_and_tests import DevAndTests
from sts_lightning.data.judged_files import SCORED_COLUMNS, load_test_files, read_scored_pairs
from sts_lightning.data.nli import nli_pairs
from sts_lightning.data.own_rows import triplets
from sts_lightning.data.readers.sts_sets import load_sickr, load_sts_tasks, load_stsb
from sts_lightning.data.sentences import sentences
from sts_lightning.papers.classification import load_probing_tasks, load_transfer_tasks
from tests.support.broken import Broken, Healthy, Reader, check_broken, check_healthy, label, put
from tests.support.data_modules import training

SUBSETS = ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews")
HEAD = "sentence1,sentence2,score\n"
PAIRS = HEAD + "".join(f"a{n},b{n},{n % 5}\n" for n in range(20))
TSV = PAIRS.replace(",", "\t")
JSONL = "".join(f'{{"sentence1": "a{n}", "sentence2": "b", "score": {n % 5}}}\n' for n in range(20))
TRIPLETS = "sent0,sent1,hard_neg\na,b,c\n"
CLASSES = "premise\thypothesis\tlabel\na\tb\tneutral\n"
STSB = "g\tf\ty\t1\t4.5\ta\tb\ng\tf\ty\t2\t1\tc\td\n"
SICK = "pair_ID\ta\tb\tr\te\n1\ta\tb\t4.5\tNEUTRAL\n2\tc\td\t1\tENTAILMENT\n"
MRPC = "Quality\t1\t2\ta\tb\n1\t1\t2\ta\tb\n"
PROBING = "tr\tX\ta\ntr\tY\ta\nva\tX\tb\nte\tY\tc\n"
DEEP = "[" * 100_000

FILES = {
    **{f"STS/STS12-en-test/STS.input.{name}.txt": "a\tb\nc\td\ne\tf\n" for name in SUBSETS},
    **{f"STS/STS12-en-test/STS.gs.{name}.txt": "4.5\n\n0\n" for name in SUBSETS},
    "STS/STSBenchmark/sts-dev.csv": STSB,
    "SICK/SICK_trial.txt": SICK,
    "SICK/SICK_train.txt": SICK,
    "SICK/SICK_test_annotated.txt": SICK,
    "MRPC/msr_paraphrase_train.txt": MRPC,
    "MRPC/msr_paraphrase_test.txt": MRPC,
    "SST/binary/sentiment-train": "good\t1\nbad\t0\n",
    "SST/binary/sentiment-dev": "good\t1\n",
    "SST/binary/sentiment-test": "bad\t0\n",
    "TREC/train_5500.label": "HUM:ind Who ?\nNUM:date When ?\n",
    "TREC/TREC_10.label": "HUM:ind Who ?\n",
    "MR/rt-polarity.neg": "bad\n",
    "MR/rt-polarity.pos": "good\n",
    "probing/past_present.txt": PROBING,
    "counts.json": "{}",
}
"""A small folder of SentEval."""


def senteval(folder: Path, name: str, content: bytes) -> Path:
    """Write SentEval's folder with one file replaced, and return the data root."""
    for file, text in FILES.items():
        path = folder / "senteval" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "senteval" / name).write_bytes(content)
    return folder


def pairs(folder: Path, name: str, content: bytes) -> Any:
    path = put(folder / name, content)
    table, _ = read_scored_pairs(path, SCORED_COLUMNS, (0.0, 5.0), "data.columns")
    return [table[column][:] for column in ("sentence1", "label")]


READERS: dict[str, Reader] = {
    "pairs": pairs,
    "triplets": lambda folder, name, content: (
        training(triplets, ".", path=str(put(folder / name, content))).train.columns
    ),
    "classes": lambda folder, name, content: training(
        nli_pairs, ".", path=str(put(folder / name, content)), filter="none"
    ).train["label"][:],
    "sentences": lambda folder, name, content: training(
        sentences, ".", path=str(put(folder / name, content))
    ).train["sentence1"][:],
    "test file": lambda folder, name, content: load_test_files([str(put(folder / name, content))])[0].subsets[
        "test"
    ]["label"][:],
    "STS12": lambda folder, name, content: load_sts_tasks(senteval(folder, name, content), ("STS12",))[
        0
    ].subsets["MSRpar"]["label"][:],
    "STS-B": lambda folder, name, content: load_stsb(senteval(folder, name, content), "dev")["label"][:],
    "SICK": lambda folder, name, content: load_sickr(senteval(folder, name, content), "trial")["label"][:],
    **{
        task: lambda folder, name, content, task=task: (  # type: ignore[misc]
            load_transfer_tasks(senteval(folder, name, content), [task])[0].train.labels
        )
        for task in ("MR", "MRPC", "SST2", "TREC")
    },
    "Tense": lambda folder, name, content: (
        load_probing_tasks(senteval(folder, name, content), ["Tense"])[0].train.labels
    ),
}


@pytest.fixture(autouse=True)
def no_test_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training files alone are read, without the test sets that they are compared with."""
    monkeypatch.setattr(DevAndTests, "test_pairs", lambda self: [])


GS, IN = (f"STS/STS12-en-test/STS.{kind}.MSRpar.txt" for kind in ("gs", "input"))
B, S, M = "STS/STSBenchmark/sts-dev.csv", "SICK/SICK_trial.txt", "MRPC/msr_paraphrase_train.txt"
T, P, D = "TREC/TREC_10.label", "probing/past_present.txt", "SST/binary/sentiment-dev"

BROKEN = [
    Broken("pairs", "a.csv", b"\xef\xbb\xbf", None, "empty"),
    Broken("pairs", "c.tsv", PAIRS.encode("utf-16"), 1, "-f utf-16"),
    Broken("pairs", "d.jsonl", PAIRS.encode("utf-16-le"), 1, "NUL"),
    Broken(
        "pairs", "nul.jsonl", JSONL + '{"sentence1": "\\u0000", "sentence2": "b", "score": 1}\n', 21, "NUL"
    ),
    Broken("pairs", "mac.csv", PAIRS.replace("\n", "\r"), 1),
    Broken("pairs", "mac.tsv", TSV.replace("\n", "\r"), 1, "sentence1"),
    Broken("pairs", "first.csv", "\n" + PAIRS, 1, "sentence1"),
    Broken("pairs", "case.csv", PAIRS.replace("score", "Score"), 1, "score"),
    Broken("pairs", "head.tsv", "sentence1\tsentence2\tscore\n", None, "no rows"),
    Broken("pairs", "more.csv", PAIRS + "a,b,1,5\n", 22, "columns"),
    Broken("pairs", "half.tsv", TSV + "a\t", 22, "columns"),
    Broken("pairs", "half.jsonl", JSONL + '{"sentence1": "a", "sent', 21, "JSON"),
    Broken("pairs", "null.jsonl", JSONL + "null\n", 21, "object"),
    Broken("pairs", "key.jsonl", JSONL + "{}\n", 21, "'score'"),
    Broken("pairs", "text.csv", PAIRS + "a,b,five\n", 22, "five"),
    Broken("pairs", "high.tsv", TSV + "a\tb\t5.01\n", 22, "outside"),
    Broken("pairs", "latin.tsv", TSV.encode() + b"\xe9\tb\t1\n", 22, "column 1 "),
    Broken("pairs", "blank.csv", PAIRS + "\na,b,1\n", 22, "found 0"),
    Broken("pairs", "gap.tsv", TSV + "\na\tb\t1\n", 22, "found 1"),
    Broken("pairs", "gap.jsonl", JSONL + "\n" + JSONL, 21, "JSON"),
    Broken("pairs", "zero.csv", PAIRS + "\u200b\u2060,b,1\n", 22, r"no visible character (\u200b\u2060)"),
    Broken("pairs", "none.txt", PAIRS, None, "format"),
    Broken("triplets", "c.csv", TRIPLETS + ' ,"b",c\n', 3, "empty"),
    Broken("triplets", "d.csv", TRIPLETS + 'a,"b,c\n', 3, "CSV"),
    Broken("triplets", "g.csv", TRIPLETS.replace("sent1", "sent0"), 1, "more than once"),
    Broken("triplets", "h.csv", "sent0," + TRIPLETS + "a,a,b,c\n", 1, "more than once"),
    Broken("classes", "a.tsv", CLASSES + "a\tb\t3\n", 3, "label"),
    Broken("classes", "e.tsv", CLASSES + "a\t\tneutral\n", 3, "empty"),
    Broken("sentences", "b.txt", "\u3000\n\u00a0\n\u200b\n", None, "no sentences"),
    Broken("test file", "a.csv", HEAD + "a,b,1\na,b,nan\n", 3, "nan"),
    Broken("test file", "b.csv", HEAD + "a,b,1\n", None, "without two"),
    Broken("test file", "c.csv", HEAD + "a,b,1\nc,d,1\n", None, "without two"),
    Broken("test file", "e.jsonl", JSONL + DEEP, 21, "nested"),
    Broken("STS12", GS, "4.5\n\n0\n1\n", None, "4 scores"),
    Broken("STS12", GS, "4.5\n\n5.5\n", 3, "outside"),
    Broken("STS12", GS, "4.5\n\n\n", None, "1 scored pair"),
    Broken("STS12", IN, "a\tb\nc d\ne\tf\n", 2, "columns"),
    Broken("STS12", IN, "a\tb\nc\td\n \tf\n", 3, "empty"),
    Broken("STS12", "counts.json", DEEP, None),
    Broken("STS12", "counts.json", '{"a": true}', None, "integers"),
    Broken("STS-B", B, STSB + "\n" + STSB, 3, "found 1"),
    Broken("STS-B", B, STSB + "g\tf\ty\t3\t-1\te\tf\n", 3, "outside"),
    Broken("SICK", S, SICK.split("\n")[0], None, "0 scored"),
    Broken("SICK", S, SICK + "3\te\tf\t0\tNEUTRAL\n", 4, "outside"),
    Broken("MRPC", M, MRPC.split("\n")[0], None, "no rows"),
    Broken("MRPC", M, MRPC + "2\t1\t2\ta\tb\n", 3, "'2'"),
    Broken("MR", "MR/rt-polarity.neg", "", None, "empty"),
    Broken("SST2", D, "good\t1\nbad\n", 2, "columns"),
    Broken("SST2", D, "\t1\n", 1, "empty"),
    Broken("TREC", T, "HUM:ind Who ?\n\nHUM:ind Who ?\n", 2, "empty"),
    Broken("TREC", T, "WHO:ind Who ?\n", 1, "WHO"),
    Broken("Tense", P, PROBING + "te\tX\n", 5, "columns"),
    Broken("Tense", P, PROBING + "te\tX\t \n", 5, "empty"),
]


@pytest.mark.parametrize("row", BROKEN, ids=label)
def test_the_error_names_the_place(row: Broken, tmp_path: Path) -> None:
    check_broken(READERS, row, tmp_path)


LABELS = [float(n % 5) for n in range(20)]
HEALTHY: list[Healthy] = [
    (
        "pairs",
        "a.csv",
        "\ufeff" + PAIRS.replace("\n", "\r\n") + "\r\n",
        [[f"a{n}" for n in range(20)], LABELS],
    ),
    ("pairs", "a.tsv", "\ufeff" + TSV.replace("\n", "\r\n")[:-2], [[f"a{n}" for n in range(20)], LABELS]),
    ("pairs", "a.jsonl", "\ufeff" + JSONL + "\n", [[f"a{n}" for n in range(20)], LABELS]),
    ("triplets", "a.csv", TRIPLETS + "\n", {"sentence1": ["a"], "sentence2": ["b"], "sentence3": ["c"]}),
    ("classes", "a.tsv", CLASSES + "a\tb\t 2 \r\n", [1, 2]),
    ("sentences", "a.txt", "\ufeffa  b\r\n\n\u3000\nc", ["a  b", "c"]),
    ("test file", "a.csv", HEAD + 'a,b,-7\n"c, d",e,1e2\n\n', [-7.0, 100.0]),
    ("STS12", GS, "\ufeff4.5\r\n\r\n0\r\n\r\n", [4.5, 0.0]),
    ("STS-B", B, STSB + "\n", [4.5, 1.0]),
    ("SICK", S, SICK.replace("\n", "\r\n"), [4.375, 0.0]),
    ("MRPC", M, "\ufeff" + MRPC, [1]),
    ("MR", "MR/rt-polarity.neg", "very\u2028bad", [1, 0]),
    ("SST2", D, "good\t1\r\n", [0, 1]),
    ("TREC", T, "HUM:ind Who ?\n\n", [3, 5]),
    ("Tense", P, PROBING + "\n", [0, 1]),
]


@pytest.mark.parametrize("row", HEALTHY, ids=label)
def test_healthy_and_odd_files_are_read(row: Healthy, tmp_path: Path) -> None:
    check_healthy(READERS, row, tmp_path)
