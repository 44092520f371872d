"""What the user's own pairs have in common, on files; `test_pairs_hub.py` has the same for data sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sts_lightning.core.errors import DataError
from sts_lightning.data import own_scored_pairs
from sts_lightning.data.own_scored_pairs import scored_pairs, stratified
from sts_lightning.data.readers.sts_sets import STSTask
from sts_lightning.data.table import LABELLED, Table
from tests.support.data_modules import data_module
from tests.support.hub_folder import rows, save

HEAD = "sentence1,sentence2,score\n"


@pytest.mark.parametrize(("common", "role"), [(0, ""), (2, "dev"), (2, "test")])
def test_training_pairs_in_dev_or_test_are_reported(
    common: int, role: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = {}
    for start, name in ((0, "train"), (100, "dev"), (200, "test")):
        shared = rows(common) if name == role else []
        paths[name] = str(save(tmp_path, name, [*rows(20, start), *shared], "csv"))
    data = data_module(
        scored_pairs, paths["train"], batch_size=4, seed=0, dev_path=paths["dev"], test_path=paths["test"]
    )
    data.setup()
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [f"2 of 20 training pairs also occur in the {role} pairs" in text for text in warnings] == (
        [True] if common else []
    )


def test_a_pair_of_the_dev_split_is_no_training_pair(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All test pairs occur in the file, some of them only in its dev split."""
    path = str(save(tmp_path, "train", rows(20), "csv"))
    data = data_module(
        scored_pairs,
        path,
        batch_size=4,
        seed=0,
        dev_fraction=0.5,
        test_path=str(save(tmp_path, "test", rows(20), "csv")),
    )
    data.setup()
    assert "10 of 10 training pairs also occur in the test pairs" in caplog.text


def scored(path: Path, *scores: object) -> str:
    path.write_text(HEAD + "".join(f"a{i},b{i},{score}\n" for i, score in enumerate(scores)))
    return str(path)


@pytest.mark.parametrize(
    ("scores", "taken", "labels"),
    [
        ((0, 0.5, 1), "[0, 1]", [0, 2.5, 5]),
        ((0, 0, 0.9), "[0, 1]", [0, 0, 4.5]),
        ((-1, 0, 0.5), "[-1, 1]", [0, 2.5, 3.75]),
        ((0, 1, 1.5), "[0, 5]", [0, 1, 1.5]),
        ((1, 3, 5), "[0, 5]", [1, 3, 5]),
    ],
)
def test_the_range_of_the_training_scores_is_recognised(
    scores: tuple[float, ...],
    taken: str,
    labels: list[float],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path, dev = scored(tmp_path / "mine.csv", *scores), scored(tmp_path / "dev.csv", 1, 2)
    data = data_module(scored_pairs, path, batch_size=2, seed=0, dev_path=dev)
    with caplog.at_level("INFO"):
        data.setup()
    assert data.train["label"][:] == labels
    [line] = [message for message in caplog.messages if "taken to be" in message]
    assert line.startswith(
        f"{path}: scores from {min(scores):g} to {max(scores):g}, taken to be in {taken}; "
    )
    assert "data.score_range=[" in line
    assert [data.source_score(label) for label in labels] == pytest.approx(scores)


@pytest.mark.parametrize(
    ("scores", "proposed"),
    [
        ((0, 33, 67), "0,100"),
        ((1, 7), "1,7"),
        ((-3, 2.5), "-3,3"),
        ((12.5, 1234567.8), "12,1234568"),
        ((7, 7), "0,7"),
        ((-2, -2), "-2,0"),
    ],
)
def test_any_other_range_has_to_be_given(scores: tuple[float, ...], proposed: str, tmp_path: Path) -> None:
    path, dev = scored(tmp_path / "mine.csv", *scores), scored(tmp_path / "dev.csv", *scores, 0.5)
    with pytest.raises(DataError) as caught:
        data_module(scored_pairs, path, batch_size=2, seed=0, dev_path=dev).setup()
    assert str(caught.value).startswith(f"{path}: the scores lie between ")
    assert str(caught.value).endswith(f" 'data.score_range=[{proposed}]'.")
    low, high = map(float, proposed.split(","))
    data = data_module(
        scored_pairs, path, batch_size=2, seed=0, dev_path=dev, score_range=(min(low, 0), max(high, 1))
    )
    data.setup()
    assert [data.source_score(label) for label in data.train["label"]] == pytest.approx(scores)


@pytest.mark.parametrize(
    ("usual", "odd", "hint"),
    [
        ((0, 0.25, 1), -0.01, "[-1,1]"),
        ((0, 0.25, 1), 4, "[0,5]"),
        ((-1, 0.25, 1), 1.5, "[-1,1.5]"),
        ((0, 3, 5), 55, "[0,55]"),
    ],
)
def test_one_in_a_hundred_scores_does_not_decide_the_range(
    usual: tuple[float, ...], odd: float, hint: str, tmp_path: Path
) -> None:
    """The third row has a line break in quotes, so that row and line differ."""
    dev = scored(tmp_path / "dev.csv", 1, 2)

    def taken(count: int, *odd: float) -> tuple[float, float]:
        scores = [usual[i % 3] for i in range(count - len(odd))]
        path = Path(scored(tmp_path / "mine.csv", *scores, *odd))
        path.write_text(path.read_text().replace("a2,", '"a\n2",'))
        return scored_pairs(str(path), dev_path=dev).read().score_range

    for count, found in ((100, [odd]), (200, [odd, odd])):
        with pytest.raises(DataError) as caught:
            taken(count, *found)
        assert f"all scores but {len(found)} of {count} lie in [{usual[0]}, {usual[2]}]: {odd} (" in str(
            caught.value
        )
        for index in range(len(found)):
            # A header, a line for each row before it, and that of the line break.
            assert f"mine.csv, line {count - len(found) + index + 3})" in str(caught.value)
        assert str(caught.value).endswith(f"'data.score_range={hint}'.")
        assert caught.value.key == "data.score_range"
    if odd in (-0.01, 4):  # in a usual range, which a larger share does decide
        low, high = (float(end) for end in hint.strip("[]").split(","))
        assert taken(99, odd) == taken(200, odd, odd, odd) == (low, high)


def test_the_rows_that_would_decide_the_range_are_named_in_any_file_and_counted(tmp_path: Path) -> None:
    files = [scored(tmp_path / "a.csv", *[0, 1] * 400), scored(tmp_path / "b.csv", 0, *[2] * 7)]
    with pytest.raises(DataError) as caught:
        scored_pairs(list(files)).read()
    places = "; ".join(f"2 ({files[1]}, line {line})" for line in range(3, 8))
    assert f"all scores but 7 of 808 lie in [0, 1]: {places}; ... Correct them" in str(caught.value)


def test_the_range_is_that_of_all_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The first file alone would be taken to be in [0, 1]; a file on a scale of its own is named."""
    files = [scored(tmp_path / "a.csv", 0, 1, 1), scored(tmp_path / "b.csv", 2, 5)]
    dev = scored(tmp_path / "dev.csv", 1, 2)
    data = data_module(scored_pairs, files, batch_size=2, seed=0, dev_path=dev)
    data.setup()
    assert data.train["label"][:] == [0, 1, 1, 2, 5]
    warnings = [record.getMessage() for record in caplog.records if "a fifth or less" in record.getMessage()]
    assert len(warnings) == 1
    assert "a.csv, training pairs: the scores lie between 0 and 1, a fifth or less of [0, 5]" in warnings[0]
    assert "data.score_range" in warnings[0]


def test_scores_in_a_fifth_of_the_given_range_are_remarked_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = scored(tmp_path / "mine.csv", *[0, 1] * 20)
    data_module(scored_pairs, path, batch_size=4, seed=0).setup()
    assert "a fifth or less" not in caplog.text
    data_module(scored_pairs, path, batch_size=4, seed=0, score_range=(0, 5)).setup()
    assert "lie between 0 and 1, a fifth or less of [0, 5]" in caplog.text


def test_dev_and_test_pairs_may_have_another_scale(tmp_path: Path) -> None:
    path = scored(tmp_path / "mine.csv", 0, 1, 0.5)
    dev, test = scored(tmp_path / "dev.csv", 1, 5), scored(tmp_path / "test.csv", 10, 90)
    data = data_module(scored_pairs, path, batch_size=2, seed=0, dev_path=dev, test_path=test)
    data.setup()
    assert data.dev["label"][:] == [1, 5]
    assert data.tests[0].subsets["test"]["label"][:] == [10, 90]
    with pytest.raises(DataError, match=r"dev\.csv, line 3: the score 5 lies outside \[0, 1\]"):
        data_module(scored_pairs, path, batch_size=2, seed=0, dev_path=dev, score_range=(0, 1)).setup()


def test_equal_scores_train_but_do_not_select(tmp_path: Path) -> None:
    path, dev = scored(tmp_path / "mine.csv", *[1] * 20), scored(tmp_path / "dev.csv", 0, 1)
    data = data_module(scored_pairs, path, batch_size=2, seed=0, dev_path=dev)
    data.setup()
    assert set(data.train["label"]) == {5}
    with pytest.raises(DataError, match=r"at most one has another score.* data\.dev_path="):
        data_module(scored_pairs, path, batch_size=2, seed=0).setup()
    with pytest.raises(DataError, match=r"mine\.csv: 20 scored pairs without two "):
        data_module(
            scored_pairs,
            scored(tmp_path / "other.csv", 0, 1),
            batch_size=2,
            seed=0,
            dev_path=path,
        ).setup()


def test_pairs_that_differ_in_white_space_are_the_same_pair(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, space in (("train", "  "), ("test", "\n\t")):
        lines = [f'"{space}if x{i}:{space}y","b{i}{space}",{i % 5}' for i in range(6)]
        (tmp_path / f"{name}.csv").write_text(HEAD + "\n".join(lines) + "\n")
    dev = scored(tmp_path / "dev.csv", 1, 2)
    path, test = (str(tmp_path / f"{name}.csv") for name in ("train", "test"))
    data = data_module(scored_pairs, path, batch_size=2, seed=0, dev_path=dev, test_path=test)
    data.setup()
    assert data.train[0]["sentence1"] == "  if x0:  y"
    assert data.tests[0].subsets["test"][0] == {
        "sentence1": "\n\tif x0:\n\ty",
        "sentence2": "b0\n\t",
        "label": 0,
    }
    assert "6 of 6 training pairs also occur in the test pairs" in caplog.text


E_ONE, E_TWO = "caf\u00e9", "cafe\u0301"
"""The same word in Unicode's forms NFC and NFD."""


@pytest.mark.parametrize(
    ("train", "other"),
    [("The {} is red.", "the {} is red"), (f"{E_ONE} {{}}", f"{E_TWO} {{}}")],
)
def test_a_pair_in_another_spelling_is_the_same_pair(
    train: str, other: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the file of dev or test pairs it is counted; in the file itself it is never divided."""
    lines = {
        name: [f"{text.format(f'box{i}')},{text.format(f'bag{i}')},{i * 7 % 5}" for i in range(40)]
        for name, text in (("a", train), ("b", other))
    }
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text(HEAD + "\n".join(lines[name]), encoding="utf-8")
    path, test = (str(tmp_path / f"{name}.csv") for name in "ab")
    scored_pairs(path, dev_path=scored(tmp_path / "dev.csv", 1, 2), test_path=test).read()
    assert "40 of 40 training pairs also occur in the test pairs" in caplog.text
    (tmp_path / "both.csv").write_text(HEAD + "\n".join(lines["a"] + lines["b"]), encoding="utf-8")
    for seed in range(3):
        splits = scored_pairs(str(tmp_path / "both.csv"), seed=seed).read()
        numbers = [
            {text.rstrip(".").split("box")[1].split()[0] for text in table["sentence1"]}
            for table in (splits.train, splits.dev)
        ]
        assert [len(part) for part in numbers] == [36, 4]
        assert not numbers[0] & numbers[1]
        assert len(splits.dev) == 8


def test_pairs_with_several_scores_are_counted_for_each_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the first file: x and y in either order; a repeated pair with one score does not count."""
    (tmp_path / "a.csv").write_text(HEAD + "x,y,1\ny,x,2\nx,y,3\nv,w,4\nv,w,4.0\nt,u,0\nt,u,5\n")
    files = [str(tmp_path / "a.csv"), scored(tmp_path / "b.csv", 0, 5)]
    with caplog.at_level("INFO"):
        data_module(scored_pairs, list(files), dev_path=scored(tmp_path / "dev.csv", 1, 2)).setup()
    assert "a.csv, training pairs: 7 rows read, 7 kept, 2 pairs with several scores" in caplog.messages
    assert "b.csv, training pairs: 2 rows read, 2 kept" in caplog.messages


DRAWN = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("scores", "size"),
    [
        (DRAWN.normal(size=500), 50),
        (DRAWN.integers(0, 6, 203).astype(float), 61),
        (np.repeat([0.0, 1.0], [28, 2]), 3),
        (np.repeat([0.0, 1.0], [2, 28]), 27),
        (np.array([0.0, 0.0, 1.0, 1.0]), 2),
    ],
)
def test_a_stratified_sample_has_the_distribution_of_all_scores(scores: np.ndarray, size: int) -> None:
    samples = [stratified(scores, size, seed) for seed in range(50)]
    assert np.array_equal(samples[7], stratified(scores, size, 7))
    assert len({sample.tobytes() for sample in samples}) > 3
    for sample in samples:
        assert sample.sum() == size
        assert len(set(scores[sample])) > 1
        assert len(set(scores[~sample])) > 1
        values = np.unique(scores)
        share, of_all = ((values[:, None] >= part).mean(axis=1) for part in (scores[sample], scores))
        assert np.abs(share - of_all).max() <= 1 / size  # the distance of Kolmogorov and Smirnov


def test_every_seed_splits_a_file_with_two_similar_pairs(tmp_path: Path) -> None:
    """The first of the two occurs twice, in either order, with another score the second time."""
    lines = [*(f"a{i},b{i},0" for i in range(27)), "x,y,4", "v,w,5", "y,x,0"]
    (tmp_path / "mine.csv").write_text("sentence1,sentence2,score\n" + "\n".join(lines))
    for seed in range(20):
        data = data_module(scored_pairs, str(tmp_path / "mine.csv"), batch_size=4, seed=seed)
        data.setup()
        assert sorted(data.dev["label"])[-1] + sorted(data.train["label"])[-1] == 4 + 5
        assert len(data.dev) - ("x" in data.dev["sentence1"][:]) == 3
        assert {*data.dev["sentence1"], *data.dev["sentence2"]}.isdisjoint(
            {*data.train["sentence1"], *data.train["sentence2"]}
        )


@pytest.mark.parametrize("seed", range(3))
def test_a_single_pair_of_another_score_cannot_be_split(seed: int, tmp_path: Path) -> None:
    lines = [*(f"a{i},b{i},0" for i in range(29)), "x,y,5"]
    (tmp_path / "mine.csv").write_text("sentence1,sentence2,score\n" + "\n".join(lines))
    with pytest.raises(DataError, match=r"of 30 distinct pairs at most one has.*: data\.dev_path=\.\.\."):
        data_module(scored_pairs, str(tmp_path / "mine.csv"), batch_size=4, seed=seed).setup()


def test_the_seven_tasks_beside_ones_own_test_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seven = STSTask("STS12", {"a": Table.of_rows(LABELLED, [("x", "y", 1.0), ("z", "w", 4.0)])})
    asked: list[str] = []

    def load(root: str) -> list[STSTask]:
        asked.append(root)
        return [seven]

    monkeypatch.setattr(own_scored_pairs, "load_sts_tasks", load)
    path = scored(tmp_path / "mine.csv", *([1, 2, 3, 4] * 10))
    data = scored_pairs(path, test_path=scored(tmp_path / "test.csv", 1, 2), root="there", keep_general=True)
    assert data.keep_general
    assert [task.name for task in data.read().tests] == ["test", "STS12"]
    assert asked == ["there"]
    assert [task.name for task in scored_pairs(path).read().tests] == []
