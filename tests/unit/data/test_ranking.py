"""Rankings held out of rows, and read from files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sts_lightning.core.errors import ConfigError, DataError
from sts_lightning.data.data_set import DataSet, Splits
from sts_lightning.data.judged_files import load_test_files, read_beir
from sts_lightning.data.own_rows import labeled_texts, triplets
from sts_lightning.data.ranking import FEWEST, Ranking, make_ranking
from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.table import CLASS, LINE, NEGATIVES, Table
from sts_lightning.data.tasks import hash_dev, hashes_of, pairs_in, texts_in

Row = tuple[str, ...]


def jsonl(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def csv(path: Path, head: str, rows: Sequence[Row]) -> str:
    path.write_text(head + "\n" + "".join(",".join(row) + "\n" for row in rows))
    return str(path)


def held_out(data_set: DataSet) -> tuple[Splits, Ranking]:
    splits = data_set.read()
    assert isinstance(splits.dev, Ranking)
    return splits, splits.dev


def many(count: int) -> list[tuple[str, str, str]]:
    """Rows of which each second anchor has a second answer, in other spelling; an answer is shared by all."""
    rows = [(f"Where is number {i}?", f"in place {i}", f"in place {i + 1}") for i in range(count)]
    rows += [(f"where is  NUMBER {i} !", f"at {i}", "nowhere") for i in range(0, count, 2)]
    rows += [(f"Where is number {i}?", "behind you", f"away {i}") for i in range(count)]
    return rows


def plain(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


@pytest.fixture
def rows_file(tmp_path: Path) -> str:
    return csv(tmp_path / "qa.csv", "anchor,positive,negative", many(100))


def test_anchors_are_held_out_whole(rows_file: str, tmp_path: Path) -> None:
    splits, dev = held_out(triplets(str(tmp_path), rows_file, dev_fraction=0.1))
    train = splits.train
    assert len(dev) == 10
    held = {plain(query) for query in dev.queries}
    assert len(held) == 10  # two spellings are one query
    assert not held & {plain(text) for text in train["sentence1"]}
    expected = sum(plain(anchor) not in held for anchor, *_ in many(100))
    assert len(train) == expected
    assert splits.train.sources[0].dropped["dev split"] == len(many(100)) - expected
    assert "behind you" in train["sentence2"]
    for query, right in zip(dev.queries, dev.relevant, strict=True):
        answers = {answer for anchor, answer, _ in many(100) if plain(anchor) == plain(query)}
        assert {dev.candidates[place] for place in right} == answers
    everything = {answer for _, answer, _ in many(100)}
    everything |= {negative for anchor, _, negative in many(100) if plain(anchor) in held}
    assert set(dev.candidates) == everything
    assert len(dev.candidates) == len(everything)
    for query, right, wrong in dev.triplets:
        rows = [row for row in many(100) if plain(row[0]) == plain(dev.queries[query])]
        assert dev.candidates[right] in {answer for _, answer, _ in rows}
        assert dev.candidates[wrong] in {negative for *_, negative in rows}
        assert wrong not in dev.relevant[query]
    assert {query for query, *_ in dev.triplets} == set(range(10))
    assert splits.tests == []


def test_an_anchor_that_answers_another_is_not_trained_on(tmp_path: Path) -> None:
    """As in questions that ask the same, of which each is an anchor and an answer."""
    rows = [(f"question {i}", f"Question {i + 1}!") for i in range(60)]
    path = csv(tmp_path / "same.csv", "anchor,positive", rows)
    splits, dev = held_out(triplets(str(tmp_path), path, dev_fraction=0.1))
    held = {plain(query) for query in dev.queries}
    texts = {plain(text) for name in ("sentence1", "sentence2") for text in splits.train[name]}
    assert len(held) == 6
    assert not held & texts
    assert len(dev.triplets) == 0
    for query, left in zip(dev.queries, dev.left_out, strict=True):
        spelled = [place for place, text in enumerate(dev.candidates) if text.lower() == query.lower()]
        assert left == spelled


def test_the_split_follows_its_own_seed_and_fraction(rows_file: str, tmp_path: Path) -> None:
    def queries(**settings: Any) -> tuple[list[str], str]:
        _, dev = held_out(triplets(str(tmp_path), rows_file, **settings))
        return list(dev.queries), hash_dev(dev)

    first = queries(dev_fraction=0.1, seed=1)
    assert queries(dev_fraction=0.1, seed=1) == first
    assert queries(dev_fraction=0.1, seed=2) != first
    assert len(queries(dev_fraction=0.25)[0]) == 25
    assert set(first[0]) <= set(queries(dev_fraction=0.25)[0])


def test_candidates_are_capped_without_losing_answers(rows_file: str, tmp_path: Path) -> None:
    def ranking(most: int) -> Ranking:
        return held_out(triplets(str(tmp_path), rows_file, dev_fraction=0.1, dev_candidates=most))[1]

    whole, capped, least = ranking(5000), ranking(60), ranking(2)
    assert len(capped.candidates) == 60 < len(whole.candidates)
    assert set(capped.candidates) < set(whole.candidates)
    for other in (capped, least):
        assert other.queries == whole.queries
        for ours, theirs in zip(other.relevant, whole.relevant, strict=True):
            assert [other.candidates[p] for p in ours] == [whole.candidates[p] for p in theirs]
        assert len(other.triplets) == len(whole.triplets)
    needed = {place for right in least.relevant for place in right} | set(least.triplets[:, 2].tolist())
    assert len(least.candidates) == len(needed)
    assert ranking(60).hash == capped.hash != whole.hash
    with pytest.raises(ValueError, match="dev_candidates must be at least 2, got 1"):
        ranking(1)
    with pytest.raises(ValueError, match=r"dev_fraction must lie in \[0, 1\), got 1"):
        triplets(str(tmp_path), rows_file, dev_fraction=1.0)


def test_lists(tmp_path: Path) -> None:
    rows = [
        {"query": f"q {i}", "pos": [f"a {i}", f"b {i}", "all"], "neg": [f"a {i + 1}", "none"][: i % 3]}
        for i in range(60)
    ]
    path = jsonl(tmp_path / "rows.jsonl", rows)
    splits, dev = held_out(triplets(str(tmp_path), path, dev_fraction=0.1, negatives=1))
    numbers = [int(query.split()[1]) for query in dev.queries]
    for number, right in zip(numbers, dev.relevant, strict=True):
        assert sorted(dev.candidates[place] for place in right) == [f"a {number}", "all", f"b {number}"]
    found = {(dev.queries[q], dev.candidates[n]) for q, _, n in dev.triplets}
    assert found == {(f"q {n}", text) for n in numbers for text in rows[n]["neg"]}
    assert len(dev.triplets) == 3 * len(found)
    assert len(splits.train) == 3 * 54
    lines = splits.train[LINE]
    assert len(set(lines)) == 54
    assert {f"q {line}" for line in lines} == set(splits.train["sentence1"])
    assert NEGATIVES in splits.train.columns


def classes(names: list[str], size: int) -> list[tuple[str, str]]:
    return [(f"{name} says {i}", name) for i in range(size) for name in names]


def test_texts_with_classes(tmp_path: Path) -> None:
    rows = [*classes(list("abcde"), 20), ("f one", "f"), ("f two", "f"), ("lone", "g")]
    rows += [("a and b", "a"), ("A and b!", "b")]
    path = csv(tmp_path / "x.csv", "text,label", rows)
    splits, dev = held_out(labeled_texts(str(tmp_path), path, dev_fraction=0.5, dev_candidates=5000))
    assert len(dev) == 52  # of 103 distinct texts, without the lone one
    staying: dict[str, set[str]] = {}
    for text, name in zip(splits.train["sentence1"], splits.train[CLASS], strict=True):
        staying.setdefault(name, set()).add(text)
    assert {name: len(texts) > 1 for name, texts in staying.items()} == dict.fromkeys("abcdef", True)
    assert set(dev.candidates) == set().union(*staying.values())
    of_text: dict[str, set[str]] = {}
    for text, name in rows:
        of_text.setdefault(plain(text), set()).add(name)
    for query, right in zip(dev.queries, dev.relevant, strict=True):
        assert {dev.candidates[p] for p in right} == set().union(*(staying[n] for n in of_text[plain(query)]))
        assert plain(query) not in {plain(text) for text in dev.candidates}


def test_candidates_of_classes_are_capped_in_proportion(tmp_path: Path) -> None:
    path = csv(tmp_path / "x.csv", "text,label", [*classes(["a"], 80), *classes(["b"], 40)])
    splits, dev = held_out(labeled_texts(str(tmp_path), path, dev_fraction=0.1, dev_candidates=27))
    train = splits.train[CLASS]
    share = 27 / len(train)
    sizes = {len(right) for right in dev.relevant}
    assert sizes == {round(share * train.count(name)) for name in "ab"}
    assert len(dev.candidates) == sum(sizes)


def test_too_few_anchors(tmp_path: Path) -> None:
    few = csv(tmp_path / "few.csv", "anchor,positive", [(f"q {i}", f"a {i}") for i in range(FEWEST - 1)] * 2)
    with pytest.raises(DataError, match=r"49 anchors are too few.*50 are needed") as raised:
        triplets(str(tmp_path), few, dev_fraction=0.1).read()
    assert raised.value.key == "data.dev_fraction"
    assert "data.dev_path=FILE" in str(raised.value)
    assert "data.dev_fraction=0" in str(raised.value)
    append(Path(few), "q 49,a 49\n")
    _, dev = held_out(triplets(str(tmp_path), few, dev_fraction=0.1))
    assert len(dev) == 5


@pytest.mark.parametrize("kind", ["rows", "scored", "folder"])
def test_dev_and_test_files_of_each_kind(kind: str, rows_file: str, tmp_path: Path) -> None:
    other = {
        "rows": lambda: csv(tmp_path / "o.csv", "anchor,positive", [("q", "a"), ("r", "b"), ("q", "b")]),
        "scored": lambda: csv(
            tmp_path / "o.csv", "sentence1,sentence2,score", [("q", "a", "1"), ("r", "b", "2")]
        ),
        "folder": lambda: str(beir(tmp_path / "o", "dev", "test")),
    }[kind]()
    splits = triplets(str(tmp_path), rows_file, dev_fraction=0.1, dev_path=other, test_path=other).read()
    assert len(splits.train) == len(many(100))  # nothing is held out
    [test] = splits.tests
    assert test.name == "o"
    if kind == "scored":
        assert isinstance(test, STSTask)
        assert isinstance(splits.dev, Table)
        return
    assert isinstance(test, Ranking)
    assert isinstance(splits.dev, Ranking)
    assert list(test.queries) == ["q", "r"]
    assert [count.read for count in splits.other_counts] == [2, 2]


def test_scored_pairs_select_without_a_fraction(
    rows_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STS-B dev as before; dev=stsb_clean wins over the fraction."""
    pairs = Table({"sentence1": ["a", "b"], "sentence2": ["c", "d"], "label": [0.0, 5.0]})
    clean = pairs.read_from("clean")
    where = "sts_lightning.data.dev_and_tests."
    monkeypatch.setattr(f"{where}load_stsb", lambda *args: pairs)
    monkeypatch.setattr(f"{where}load_clean_stsb", lambda *args: clean)
    monkeypatch.setattr(f"{where}load_sts_tasks", lambda *args, **more: [STSTask("A", {"all": pairs})])
    for settings, dev, rows in (
        ({"dev_fraction": 0.0}, pairs, 250),
        ({"dev_fraction": None}, pairs, 250),
        ({"dev_fraction": 0.1, "dev": "stsb_clean"}, clean, 250),
    ):
        options: Any = settings
        splits = triplets(str(tmp_path), rows_file, **options).read()
        assert splits.dev is dev
        assert len(splits.train) == rows
        assert [task.name for task in splits.tests] == ["A"]
    for general, tests in ((False, []), (True, ["A"])):
        splits = triplets(str(tmp_path), rows_file, dev_fraction=0.1, keep_general=general).read()
        assert isinstance(splits.dev, Ranking)
        assert [task.name for task in splits.tests] == tests
    own: Any = {"dev_fraction": 0.1, "keep_general": True}
    own["test_path"] = csv(tmp_path / "A.csv", "anchor,positive", [("q", "a")])
    with pytest.raises(DataError, match="A is the name of one of the seven test sets, too"):
        triplets(str(tmp_path), rows_file, **own).read()
    own["test_path"] = csv(tmp_path / "B.csv", "anchor,positive", [("q", "a")])
    assert [task.name for task in triplets(str(tmp_path), rows_file, **own).read().tests] == ["B", "A"]


def test_texts_of_a_dev_file_rank_those_that_train(tmp_path: Path) -> None:
    path = csv(tmp_path / "x.csv", "text,label", classes(list("ab"), 5))
    dev_path = csv(tmp_path / "dev.csv", "text,label", [("new", "a"), ("a says 1", "a"), ("b new", "b")])
    splits, dev = held_out(labeled_texts(str(tmp_path), path, dev_path=dev_path))
    assert len(splits.train) == 10
    assert list(dev.queries) == ["new", "a says 1", "b new"]
    assert set(dev.candidates) == {text for text, _ in classes(list("ab"), 5)}
    assert [len(right) for right in dev.relevant] == [5, 4, 5]
    assert [len(left) for left in dev.left_out] == [0, 1, 0]


def beir(folder: Path, *splits: str, titles: bool = True) -> Path:
    (folder / "qrels").mkdir(parents=True)
    jsonl(folder / "queries.jsonl", [{"_id": name, "text": name} for name in ("q", "r", "unused")])
    documents = [("1", "One", "the first"), ("2", "", "the second"), ("3", "Three", "the third")]
    jsonl(
        folder / "corpus.jsonl",
        [
            {"_id": name, "text": text} | ({"title": title} if titles else {})
            for name, title, text in documents
        ],
    )
    for split in splits:
        judged = [("q", "2", "1"), ("q", "1", "0"), ("r", "3", "2"), ("r", "1", "1")]
        (folder / "qrels" / f"{split}.tsv").write_text(
            "query-id\tcorpus-id\tscore\n" + "".join("\t".join(row) + "\n" for row in judged)
        )
    return folder


@pytest.mark.parametrize("titles", [True, False])
def test_a_folder_of_beir(titles: bool, tmp_path: Path) -> None:
    found = read_beir(beir(tmp_path / "set", "test", titles=titles), "test")
    assert (found.name, list(found.queries)) == ("set", ["q", "r"])
    begin = ("One ", "", "Three ") if titles else ("", "", "")
    texts = ("the first", "the second", "the third")
    assert list(found.candidates) == [b + text for b, text in zip(begin, texts, strict=True)]
    assert found.relevant == [[1], [0, 2]]
    [loaded] = load_test_files([str(tmp_path / "set")])
    assert isinstance(loaded, Ranking)
    assert loaded.hash == found.hash


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: (f / "qrels" / "test.tsv").unlink(), "qrels/test.tsv"),
        (lambda f: (f / "queries.jsonl").unlink(), "queries.jsonl"),
        (lambda f: append(f / "qrels" / "test.tsv", "q\t9\t1\n"), "line 6: '9' is no _id of corpus.jsonl"),
        (lambda f: append(f / "qrels" / "test.tsv", "z\t1\t1\n"), "'z' is no _id of queries.jsonl"),
        (lambda f: append(f / "qrels" / "test.tsv", "q\t1\thigh\n"), "the score 'high' is not a number"),
        (lambda f: append(f / "qrels" / "test.tsv", "q 1 1\n"), "found 1 columns"),
        (lambda f: (f / "qrels" / "test.tsv").write_text("q\t1\t0\n"), "no query has a document"),
        (lambda f: append(f / "corpus.jsonl", '{"_id": "1", "text": "x"}\n'), "'1' occurs more than once"),
        (lambda f: append(f / "corpus.jsonl", '{"text": "x"}\n'), "an object with _id and text"),
        (lambda f: append(f / "corpus.jsonl", "{\n"), "not valid JSON"),
    ],
)
def test_a_broken_folder_of_beir(change: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    change(folder := beir(tmp_path / "set", "test"))
    with pytest.raises(DataError) as raised:
        read_beir(folder, "test")
    assert message in str(raised.value)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_file_is_ranked_or_scored_by_its_columns(tmp_path: Path) -> None:
    two = csv(tmp_path / "two.csv", "query,answer", [("q", "a"), ("q", "b"), ("Q", "c"), ("r", "a")])
    three = csv(tmp_path / "three.csv", "sentence1,sentence2,score", [("q", "a", "1"), ("r", "b", "2")])
    texts = csv(tmp_path / "texts.csv", "text,label", [("a", "x"), ("b", "x"), ("c", "y"), ("A", "x")])
    ranked, scored, of_classes = load_test_files([two, three, texts])
    assert isinstance(scored, STSTask)
    assert isinstance(ranked, Ranking)
    assert isinstance(of_classes, Ranking)
    assert (list(ranked.queries), list(ranked.candidates)) == (["q", "r"], ["a", "b", "c"])
    assert ranked.relevant == [[0, 1, 2], [0]]
    assert list(of_classes.queries) == ["a", "b"]  # a class of one text has no answer; A is a
    answers = [[of_classes.candidates[place] for place in right] for right in of_classes.relevant]
    assert answers == [["b"], ["a"]]
    assert len(texts_in(ranked, [scored])) == 3
    assert [len(table) for table in pairs_in([ranked, scored])] == [4, 2]
    assert len(set(hashes_of([ranked, scored, of_classes]).values())) == 3
    with pytest.raises(DataError, match="no text has another one of its class"):
        load_test_files([csv(tmp_path / "lone.csv", "text,label", [("a", "x"), ("b", "y")])])
    with pytest.raises(ConfigError, match="more than one test file"):
        load_test_files([two, two])


def test_what_the_hash_is_of() -> None:
    base = make_ranking("a", [("q", ["x"], ["y"]), ("r", ["y"], [])])
    assert make_ranking("b", [("q", ["x"], ["y"]), ("r", ["y"], [])]).hash == base.hash
    others: list[Any] = [
        [("q", ["x"], []), ("r", ["y"], [])],
        [("q", ["x", "y"], []), ("r", ["y"], [])],
        [("p", ["x"], ["y"]), ("r", ["y"], [])],
    ]
    hashes = {make_ranking("a", rows).hash for rows in others}
    assert len(hashes | {base.hash}) == 4
    assert isinstance(base.triplets, np.ndarray)
