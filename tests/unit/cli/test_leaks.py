"""The command `sts-lightning leaks`."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pytest

from sts_lightning.cli.main import main

TEST_PAIRS = [
    ("A man is playing a large flute.", "A man plays the flute."),
    ("Two dogs run through tall grass.", "A cat sleeps on the red sofa."),
]
FLUTE, DOGS = TEST_PAIRS


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test = tmp_path / "train.csv", tmp_path / "test.tsv"
    test.write_text("a\tb\n" + "".join("\t".join(pair) + "\n" for pair in TEST_PAIRS))
    with train.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("a", "note", "b"), ("New", "spans\nlines", "pair"), (FLUTE[0], "x\ny", FLUTE[1])])
        writer.writerows([(DOGS[1], "swapped", DOGS[0]), ("Last", "", "one")])
    listing, clean = tmp_path / "leaks.csv", tmp_path / "clean.csv"
    command = ["leaks", str(train), "--against", str(test), "--columns", "a", "b"]
    main([*command, "--list", str(listing), "--write", str(clean)])
    printed = capsys.readouterr().out.splitlines()
    assert [line.split() for line in printed[1:]] == [
        ["exact", "swapped", "normalized", "near", "any"],
        ["test.tsv", "1", "1", "0", "0", "2"],
        ["distinct", "pairs", "1", "1", "0", "0", "2"],
    ]
    assert printed[0] == "Training pairs, of 4, that also occur in a test set"
    with listing.open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [(row["row"], row["line"], row["kind"]) for row in found] == [
        ("1", "5", "exact"),
        ("2", "6", "swapped"),
    ]
    with clean.open(newline="") as file:
        left = list(csv.reader(file))
    assert left == [["a", "note", "b"], ["New", "spans\nlines", "pair"], ["Last", "", "one"]]
    again = [*command[:1], str(clean), *command[2:], "--near", "0"]
    main(again)
    with pytest.raises(SystemExit, match="would overwrite another file"):
        main([*command, "--write", str(train)])
    with pytest.raises(SystemExit, match=r"--write must name a \.csv file"):
        main([*command, "--write", str(tmp_path / "clean.tsv")])
    with pytest.raises(SystemExit, match="no column named 'c'"):
        main([*command[:-1], "c"])


def test_a_compressed_file_is_written_compressed(tmp_path: Path) -> None:
    train, test, clean = tmp_path / "train.jsonl.gz", tmp_path / "test.parquet", tmp_path / "clean.jsonl.gz"
    table = pd.DataFrame({"a": [FLUTE[0], "New"], "b": [FLUTE[1], "pair"]})
    table.to_json(train, orient="records", lines=True)
    pd.DataFrame(TEST_PAIRS, columns=["a", "b"]).to_parquet(test)
    options = ["--columns", "a", "b", "--write", str(clean)]
    main(["leaks", str(train), "--against", str(test), *options])
    assert pd.read_json(clean, lines=True).to_dict("list") == {"a": ["New"], "b": ["pair"]}
    with pytest.raises(SystemExit, match="--write copies lines"):
        main(["leaks", str(test), "--against", str(train), *options[:-1], str(tmp_path / "clean.parquet")])


def test_sentences_are_read_as_training_reads_them(tmp_path: Path) -> None:
    train, test, listing = tmp_path / "train.tsv", tmp_path / "test.tsv", tmp_path / "leaks.csv"
    train.write_text("a\tb\nA  man is here. \tA dog  runs.\n")
    test.write_text("a\tb\nA man is here.\tA dog runs.\n")
    command = ["leaks", str(train), "--against", str(test), "--columns", "a", "b", "--list", str(listing)]
    main(command)
    assert [row["kind"] for row in csv.DictReader(listing.open())] == ["exact"]
    test.write_text("a\tb\n \t \n")
    with pytest.raises(SystemExit, match=r"test\.tsv, line 2: a sentence is empty"):
        main(command)
