"""SentEval's layout, on small generated files."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from sts_lightning.choices import SentEvalText
from sts_lightning.data.pair_tables import make_table
from sts_lightning.data.readers.senteval import (
    STS_YEARS,
    load_sickr,
    load_sts_tasks,
    load_stsb,
    text_found,
)
from sts_lightning.data.sts import STSData
from sts_lightning.errors import DataError


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


def test_unscored_rows_are_left_out_and_blanks_folded(root: Path) -> None:
    tasks = {task.name: task for task in load_sts_tasks(root)}
    assert list(tasks) == ["STS12", "STS13", "STS14", "STS15", "STS16", "STSB", "SICKR"]
    assert tuple(tasks["STS13"].subsets) == ("FNWN", "headlines", "OnWN")
    table = tasks["STS13"].subsets["OnWN"]
    assert table.to_dict() == {
        "sentence1": ["STS13 one", "three"],
        "sentence2": ["other one", "c"],
        "label": [4.5, 0.0],
    }


def test_the_senteval_folder_itself_is_a_root_too(root: Path) -> None:
    assert len(load_sts_tasks(root / "senteval", ("STS16",))) == 1


def test_sick_scores_are_mapped_to_five_points(root: Path) -> None:
    assert load_sickr(root, "train")["label"][:] == pytest.approx([0.0, 4.0, 5.0])


@pytest.mark.parametrize(
    ("how", "kept"),
    [("none", 8), ("exact", 5), ("normalized", 4)],
)
def test_filter_drops_pairs_of_the_tests_in_either_order(root: Path, how: str, kept: int) -> None:
    data = STSData(str(root), batch_size=2, seed=0, filter=how)
    data.setup()
    assert len(data.train) == kept
    texts = set(data.train["sentence1"])
    assert ("A cat." in texts) == (how == "none")
    assert ("a CAT" in texts) == (how != "normalized")
    assert sum(count.kept for count in data.counts) == kept
    assert sum(count.read for count in data.counts) == 8


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
        ("STS/STSBenchmark/sts-dev.csv", "5.0", "1.0", r"all 2 scores equal 1; .* undefined"),
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


def test_prepared_text_is_made_from_raw_files(root: Path) -> None:
    table = load_stsb(root, "test", "prepared")
    assert list(table["sentence1"]) == ["a dog , barks .", "p"]
    assert list(load_stsb(root, "test")["sentence1"]) == ["A dog, barks.", "p"]
    assert text_found([table, load_sickr(root, "test", "prepared")]) == "prepared"
    assert text_found([load_stsb(root, "test")]) == "raw"
    assert text_found([make_table({"sentence1": []})]) is None


@pytest.mark.parametrize("asked", get_args(SentEvalText))
def test_prepared_files_are_read_as_they_are(root: Path, asked: SentEvalText) -> None:
    path = root / "senteval" / "STS" / "STSBenchmark" / "sts-test.csv"
    path.write_text("\n".join(stsb_row(*row) for row in [("it ' s a b.", "p .", "1"), ("q", "r , s", "2")]))
    table = load_stsb(root, "test", asked)
    assert table.to_dict() == {
        "sentence1": ["it ' s a b.", "q"],
        "sentence2": ["p .", "r , s"],
        "label": [1, 2],
    }
    assert text_found([table]) == "prepared_files"


def test_the_corpus_is_the_same_in_both_texts(root: Path) -> None:
    corpora = [STSData(str(root), batch_size=2, seed=0, senteval_text=text) for text in ("raw", "prepared")]
    for data in corpora:
        data.setup()
    raw, prepared = (data.train.to_dict() for data in corpora)
    assert prepared["label"] == raw["label"]
    assert "a CAT" in raw["sentence1"] and "a cat" in prepared["sentence1"]
    assert [data.text for data in corpora] == ["raw", "prepared"]


def test_an_unknown_text(root: Path) -> None:
    with pytest.raises(ValueError, match="senteval_text must be one of raw, prepared"):
        STSData(str(root), batch_size=2, seed=0, senteval_text="clean")
