"""A training run that fails or is stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows import start
from tests.conftest import EXACT


def test_batches_without_contrast_train_nothing(
    config: Callable[..., DictConfig], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """CoSENT is exactly 0 in them; 49 pairs of which two are similar, one alone in its batch."""
    head = "sentence1,sentence2,score\n"
    (tmp_path / "a.csv").write_text(head + "".join(f"a {i},b {i},{5 * (i < 2)}\n" for i in range(49)))
    (tmp_path / "dev.csv").write_text(head + "c,d,0\ne,e,5\n")
    own = ["model=tiny_bert", EXACT, "data=pairs_file", f"path={tmp_path}/a.csv", "logger=csv"]
    own += [f"data.dev_path={tmp_path}/dev.csv", "data.batch_size=8", "trainer.max_epochs=1"]
    with caplog.at_level("INFO"):
        start.train_in(tmp_path / "run", config(*own, "loss=cosent", "trainer.log_every_n_steps=1"))
    losses = [row["train/loss"] for row in RunFolder(tmp_path / "run").history() if "train/loss" in row]
    assert len(losses) == 6
    assert losses.count(0) in (4, 5, 6)
    assert "49 examples, 1 of them left out of each epoch, 6 steps of batch 8" in caplog.text


def test_scores_and_classes_in_reverse(
    config: Callable[..., DictConfig], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A model with random weights knows pairs that differ in one word; their class is 0."""
    words = [f"w{i} x{i * i} the {i + 7}" for i in range(40)]
    same = [(text, f"{text} too") for text in words[:20]]
    pairs = [*same, *zip(words[20:], words[:20], strict=True)]
    text = "".join(f"{first},{second},{5 * (first not in second)}\n" for first, second in pairs)
    (tmp_path / "distances.csv").write_text("sentence1,sentence2,score\n" + text)
    (tmp_path / "dev.csv").write_text(
        "sentence1,sentence2,score\n" + text.replace(",5\n", ",x\n").replace(",0\n", ",5\n").replace("x", "0")
    )
    (tmp_path / "classes.csv").write_text("sentence1,sentence2,label\n" + text.replace(",5\n", ",1\n"))
    short = ["model=tiny_bert", EXACT, "logger=csv", "loss=cosent", "data.batch_size=40"]
    short += ["trainer.max_steps=4", "trainer.val_every=4", "optim.lr=0.01", "optim.warmup=0"]
    for name in ("distances", "dev"):
        data = ["data=pairs_file", f"path={tmp_path}/dev.csv", f"data.dev_path={tmp_path}/{name}.csv"]
        caplog.clear()
        start.train_in(tmp_path / name, config(*short, *data))
        assert ("seem to be distances" in caplog.text) == (name == "distances")
        assert "in another order" not in caplog.text
    data = ["data=classes_file", f"path={tmp_path}/classes.csv", f"data.dev_path={tmp_path}/dev.csv"]
    caplog.clear()
    start.train_in(tmp_path / "run", config(*short, *data, "data.classes=[no,yes]"))
    assert "0 is no (the least similar)" in caplog.text
    assert "train longer, or the labels are in another order than data.classes" in caplog.text


@pytest.mark.parametrize("mask", [True, False])
def test_rows_that_share_an_answer(mask: bool, config: Callable[..., DictConfig], tmp_path: Path) -> None:
    """With one answer in a batch nothing is left to be pushed apart: the loss is 0."""
    words = ("dogs", "rain", "music", "the sea", "a guitar", "chess", "soup", "maps")
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("anchor,positive\n" + "".join(f"what about {word},see the list\n" for word in words))
    dev = tmp_path / "dev.csv"
    dev.write_text("sentence1,sentence2,score\na dog,a cat,1\nrain,snow,3\nchess,chess,5\n")
    run = config(
        "model=tiny_bert",
        "data=triplets_file",
        "loss=infonce",
        "data.columns=[anchor,positive]",
        f"path={pairs}",
        f"data.dev_path={dev}",
        "data.batch_size=8",
        f"loss.mask_repeats={str(mask).lower()}",
        "trainer.max_epochs=1",
        "trainer.log_every_n_steps=1",
        "trainer.micro_batch_size=2",
        "logger=csv",
    )
    start.train_in(tmp_path / "run", run)
    (loss,) = (
        row["train/loss"]
        for row in RunFolder(tmp_path / "run").history()
        if row.get("train/loss") is not None
    )
    assert loss == 0 if mask else loss > 1
