"""What the user's own pairs have in common, on files; `test_pairs_hub.py` has the same for data sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sts_lightning.data.pairs_file import PairsFileData
from sts_lightning.data.scored_pairs import stratified
from sts_lightning.errors import DataError
from tests.data.hub_folder import rows, save


@pytest.mark.parametrize(("common", "role"), [(0, ""), (2, "dev"), (2, "test")])
def test_training_pairs_in_dev_or_test_are_reported(
    common: int, role: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = {}
    for start, name in ((0, "train"), (100, "dev"), (200, "test")):
        shared = rows(common) if name == role else []
        paths[name] = str(save(tmp_path, name, [*rows(20, start), *shared], "csv"))
    data = PairsFileData(paths["train"], batch_size=4, seed=0, dev_path=paths["dev"], test_path=paths["test"])
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
    data = PairsFileData(
        path, batch_size=4, seed=0, dev_fraction=0.5, test_path=str(save(tmp_path, "test", rows(20), "csv"))
    )
    data.setup()
    assert "10 of 10 training pairs also occur in the test pairs" in caplog.text


@pytest.mark.parametrize(("score_range", "warned"), [((0.0, 5.0), True), ((0.0, 1.0), False)])
def test_scores_in_a_fifth_of_their_range_are_remarked_on(
    score_range: tuple[float, float], warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("sentence1,sentence2,score\n" + "".join(f"a{i},b{i},{i % 2}\n" for i in range(40)))
    PairsFileData(str(path), batch_size=4, seed=0, score_range=score_range).setup()
    assert ("lie between 0 and 1, a fifth or less of the range [0, 5]" in caplog.text) == warned


def test_a_file_on_a_narrower_scale_than_the_others_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = [save(tmp_path, name, rows(20, top=top), "csv") for name, top in (("wide", 5.0), ("narrow", 1.0))]
    PairsFileData([str(file) for file in files], batch_size=4, seed=0).setup()
    warnings = [record.getMessage() for record in caplog.records if "a fifth or less" in record.getMessage()]
    assert [str(files[1]) in warning for warning in warnings] == [True]


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
        data = PairsFileData(str(tmp_path / "mine.csv"), batch_size=4, seed=seed)
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
        PairsFileData(str(tmp_path / "mine.csv"), batch_size=4, seed=seed).setup()
