"""SentEval's layout, on small generated files."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from sts_lightning.core.choices import SentEvalText
from sts_lightning.core.errors import DataError
from sts_lightning.data.readers.sts_sets import (
    load_sickr,
    load_sts_tasks,
    load_stsb,
    text_found,
)
from sts_lightning.data.sts_train import sts_train
from sts_lightning.data.table import Table
from tests.support.data_modules import data_module
from tests.unit.data.conftest import stsb_row


def test_unscored_rows_are_left_out_and_blanks_folded(root: Path) -> None:
    tasks = {task.name: task for task in load_sts_tasks(root)}
    assert list(tasks) == ["STS12", "STS13", "STS14", "STS15", "STS16", "STSB", "SICKR"]
    assert tuple(tasks["STS13"].subsets) == ("FNWN", "headlines", "OnWN")
    table = tasks["STS13"].subsets["OnWN"]
    assert table.columns == {
        "sentence1": ["STS13 one", "three"],
        "sentence2": ["other one", "c"],
        "label": [4.5, 0.0],
    }


def test_the_senteval_folder_itself_is_a_root_too(root: Path) -> None:
    assert len(load_sts_tasks(root / "senteval", ("STS16",))) == 1


def test_sick_scores_are_mapped_to_five_points(root: Path) -> None:
    assert load_sickr(root, "train")["label"][:] == pytest.approx([0.0, 4.0, 5.0])


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            "STS/STSBenchmark/sts-dev.csv",
            "5.0",
            "5.1",
            r"sts-dev\.csv, line 2: the score 5\.1 lies outside \[0, 5\]",
        ),
        (
            "STS/STSBenchmark/sts-dev.csv",
            "5.0",
            "nan",
            r"sts-dev\.csv, line 2: the score 'nan' is not a number",
        ),
        ("STS/STSBenchmark/sts-dev.csv", "5.0", "high", r"line 2: the score 'high' is not a number"),
        ("STS/STSBenchmark/sts-dev.csv", "5.0", "1.0", "2 scored pairs without two different scores"),
        ("STS/STSBenchmark/sts-dev.csv", "Cat", " ", r"sts-dev\.csv, line 2: a sentence is empty"),
        ("STS/STSBenchmark/sts-dev.csv", "\tCat\tDog\tsurplus", "", r"line 2: expected at least 7"),
        ("SICK/SICK_trial.txt", "\t5\t", "\t0.5\t", r"SICK_trial\.txt, line 4: .* outside \[1, 5\]"),
        ("STS/STS12-en-test/STS.gs.MSRpar.txt", "0\n", "", r"MSRpar\.txt: 2 scores for the 3 pairs"),
        ("STS/STS12-en-test/STS.input.MSRpar.txt", "three\tc\n", "three\n", r"MSRpar\.txt, line 3: expected"),
    ],
)
def test_broken_files(root: Path, file: str, old: str, new: str, message: str) -> None:
    path = root / "senteval" / file
    content = path.read_text()
    assert old in content
    head, _, tail = content.rpartition(old)
    path.write_text(head + new + tail)
    with pytest.raises(DataError, match=message):
        load_sts_tasks(root), load_stsb(root, "dev"), load_sickr(root, "trial")


def test_a_folder_without_data(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no STS data here .* STS_DATA_ROOT"):
        load_sts_tasks(tmp_path)


def test_an_unknown_task(root: Path) -> None:
    with pytest.raises(DataError, match="unknown task STS17; the tasks are STS12"):
        load_sts_tasks(root, ("STS17",))


def write_sts(root: Path, rows: int) -> Path:
    folder = root / "senteval"
    for name, head in (
        ("STS/STSBenchmark/sts-dev.csv", ""),
        ("SICK/SICK_trial.txt", "pair_ID\ta\tb\tc\td\n"),
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = [
            f"g\tf\ty\t{row}\t{row % 6}\tone {row}\tother {row}"
            if "STS" in name
            else f"{row}\tone {row}\tother {row}\t{1 + row % 5}\tNEUTRAL"
            for row in range(rows)
        ]
        path.write_text(head + "\n".join(text) + "\n\n")
    return folder


def test_files_of_known_size(tmp_path: Path) -> None:
    folder = write_sts(tmp_path, 60)
    for read_split, name, count in (
        (lambda: load_stsb(tmp_path, "dev"), "sts-dev.csv", "1,500"),
        (lambda: load_sickr(tmp_path, "trial"), "SICK_trial.txt", "500"),
    ):
        with pytest.raises(DataError) as caught:
            read_split()
        for part in (name, "60", count, "counts.json"):
            assert part in str(caught.value)
    counts = folder / "counts.json"
    counts.write_text('{"STS/STSBenchmark/sts-dev.csv": 60}')
    assert len(load_stsb(tmp_path, "dev")) == 60
    assert len(load_sickr(tmp_path, "trial")) == 60  # not listed, so not checked
    counts.write_text('{"STS/STSBenchmark/sts-dev.csv": 61}')
    with pytest.raises(DataError, match=r"sts-dev\.csv: 60 rows .* 61"):
        load_stsb(tmp_path, "dev")
    for broken in ("[]", "{", '{"STS/STSBenchmark/sts-dev.csv": "60"}'):
        counts.write_text(broken)
        with pytest.raises(DataError, match=r"counts\.json"):
            load_stsb(tmp_path, "dev")
    write_sts(tmp_path, 500)
    counts.unlink()
    assert len(load_sickr(tmp_path, "trial")) == 500


def test_prepared_text_is_made_from_raw_files(root: Path) -> None:
    table = load_stsb(root, "test", "prepared")
    assert list(table["sentence1"]) == ["a dog , barks .", "p"]
    assert list(load_stsb(root, "test")["sentence1"]) == ["A dog, barks.", "p"]
    assert text_found([table, load_sickr(root, "test", "prepared")]) == "prepared"
    assert text_found([load_stsb(root, "test")]) == "raw"
    assert text_found([Table({"sentence1": []})]) is None


@pytest.mark.parametrize("asked", get_args(SentEvalText))
def test_prepared_files_are_read_as_they_are(root: Path, asked: SentEvalText) -> None:
    path = root / "senteval" / "STS" / "STSBenchmark" / "sts-test.csv"
    path.write_text("\n".join(stsb_row(*row) for row in [("it ' s a b.", "p .", "1"), ("q", "r , s", "2")]))
    table = load_stsb(root, "test", asked)
    assert table.columns == {
        "sentence1": ["it ' s a b.", "q"],
        "sentence2": ["p .", "r , s"],
        "label": [1, 2],
    }
    assert text_found([table]) == "prepared_files"


def test_an_unknown_text(root: Path) -> None:
    with pytest.raises(ValueError, match="senteval_text must be one of raw, prepared"):
        data_module(sts_train, str(root), batch_size=2, seed=0, senteval_text="clean")


def test_as_many_scores_as_pairs(tmp_path: Path) -> None:
    folder = tmp_path / "senteval" / "STS" / "STS13-en-test"
    folder.mkdir(parents=True)
    inputs, golds = folder / "STS.input.FNWN.txt", folder / "STS.gs.FNWN.txt"

    def write(pairs: int, scores: int) -> None:
        inputs.write_text("".join(f"one {row}\tother {row}\n" for row in range(pairs)))
        golds.write_text("".join(f"{row % 6}\n" for row in range(scores)))

    for pairs, scores in ((150, 189), (189, 150)):
        write(pairs, scores)
        with pytest.raises(DataError) as caught:
            load_sts_tasks(tmp_path, ("STS13",))
        assert caught.value.path == golds
