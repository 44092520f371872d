"""Texts that the training data pair with an anchor are known in every batch."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from sts_lightning.core.processes import Shard
from sts_lightning.data.collate import View, ViewCollator
from sts_lightning.data.data_set import DataSet, Splits, column_views
from sts_lightning.data.loader import EpochBatches, PartRows
from sts_lightning.data.module import DataModule
from sts_lightning.data.positives import TokenIds, known_positives
from sts_lightning.data.table import Table
from sts_lightning.losses.contrastive import InfoNCELoss
from sts_lightning.testing.toy import toy

NAMES = ("sentence1", "sentence2", "sentence3")


def keep(views: Sequence[list[str]], augmentations: Sequence[Any], **options: Any) -> Any:
    return list(views)


def lower(texts: Sequence[str]) -> list[list[int]]:
    """An uncased tokenizer that drops white space at the ends: a token for each character."""
    return [[ord(letter) for letter in text.lower().strip()] for text in texts]


def table(*rows: str) -> Table:
    return Table.of_rows(NAMES[: len(rows[0].split("|"))], [row.split("|") for row in rows])


def ids(
    source: Table, rows: Sequence[int], tokens: TokenIds | None = None, shard: Shard | None = None
) -> Any:
    columns = source.columns
    known = known_positives(source, columns, tokens)
    views = [View(name) for name in columns]
    collate = ViewCollator(views, "none", keep, known=known, shard=shard or Shard(0, 1))
    numbers = collate([source[row] for row in rows]).sentence_ids
    assert numbers is not None
    return numbers.tolist()


def test_other_answers_of_the_batch_among_all_texts() -> None:
    source = table("q|a|b", "q|b|c", "r|c|a", "s|q|d", "t|u|v")
    # q has a and b, and s in the other order; c is not among them, and s is not in this batch.
    batch = [[0, 0, 1], [2, 3, 4], [3, 4, 2]]
    assert ids(source, [0, 1, 2]) == [*batch, [3, 2, 4]]
    assert ids(source, [0, 1, 2], shard=Shard(1, 2)) == [*batch, [3, 2, 4]]
    assert ids(source, [2, 4]) == [[0, 1], [2, 3], [4, 5]]  # each anchor has one answer
    assert ids(source, [0, 4])[3:] == [[4, 3]]  # a hard negative that is an answer in another row
    assert ids(source, [0, 3])[3:] == [[1, 0], [3, 0]]  # s and b for q, nothing for s but its own q


def test_spellings_that_the_tokenizer_makes_equal() -> None:
    source = table("Q|Do it.", "R|do it. ", "q |Do it now", "S|Do it!")
    assert ids(source, [0, 1, 2, 3]) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    rows = ids(source, [0, 1, 2, 3], lower)
    assert rows[:2] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    # Q and q are one question with two answers, of which one has two spellings.
    assert [sorted({row[i] for row in rows}) for i in range(4)] == [
        [0, 2, 4, 5, 6],
        [1, 4, 5],
        [0, 2, 4, 5, 6],
        [3, 7],
    ]
    assert ids(source, [0, 1, 2, 3], lambda texts: [[ord(c) for c in text] for text in texts]) == rows[:2]


def test_a_perfect_encoder_has_no_loss_on_spellings() -> None:
    answers = [
        f"{before}{text}{after}"
        for text in ("Hold the red button.", "hold the red Button.", "HOLD THE RED BUTTON.")
        for before in ("", " ")
        for after in ("", " ", "\n")
    ]
    source = Table.of_rows(
        NAMES[:2], [(f"question {row}", text) for row, text in enumerate([*answers, "No."])]
    )
    assert len(set(answers)) == 18
    vectors = torch.eye(2)[[0] * 18 + [1]]
    views = torch.stack([vectors, vectors])
    loss, rows = InfoNCELoss(), range(19)
    assert loss(views, sentence_ids=torch.tensor(ids(source, rows, lower))).item() == pytest.approx(
        0, abs=1e-6
    )
    assert loss(views, sentence_ids=torch.tensor(ids(source, rows))).item() > 2


def module(source: Table, mask: bool = True, **settings: Any) -> DataModule:
    read = toy(train_size=4, dev_size=4, test_size=4).read()
    splits = Splits(source.read_from("mine"), read.dev, read.tests)
    data_set = replace(DataSet(lambda: splits, column_views(2), "none"), **settings)
    return DataModule(data_set, batch_size=4, mask_repeats=mask)


def test_the_loader_knows_the_table_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    data = module(table("q|a", "Q|b", "r|c", "q|d"))
    data.connect(keep, keep, lower)
    data.setup()
    caplog.set_level(logging.INFO)
    (batch,) = data.train_dataloader()
    assert batch.sentence_ids.shape == (5, 4)
    assert len(data.train_dataloader()) == 1
    lines = [record.getMessage() for record in caplog.records if "several" in record.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith("1 anchor with several positives (3 rows): ")


def test_without_the_mask_batches_have_any_rows() -> None:
    source = table(*(f"question {row % 2}|{row}" for row in range(8)))
    batches = {}
    for mask in (False, True):
        data = module(source, mask)
        data.connect(keep, keep)
        data.setup()
        batches[mask] = list(data.train_dataloader())
    plain = EpochBatches([PartRows([(8, 8)], 4)], data.seed)
    rows = [[int(text) for text in batch.rows[1]] for batch in batches[0]]
    assert rows == list(plain)
    assert [batch.sentence_ids.shape for batch in batches[0]] == [(2, 4), (2, 4)]
    assert [batch.sentence_ids.shape for batch in batches[1]] == [(3, 4), (3, 4)]  # each question twice
    data.numbered = ()  # as for a loss that reads no numbers
    unnumbered = list(data.train_dataloader())
    assert [batch.sentence_ids for batch in unnumbered] == [None, None]
    assert [[int(text) for text in batch.rows[1]] for batch in unnumbered] == rows


@pytest.mark.parametrize(
    "settings", [{"label": "score"}, {"views": (View("sentence1"),) * 2}, {"views": (View("sentence1"),)}]
)
def test_scored_pairs_and_single_sentences_are_compared_by_text_alone(settings: dict[str, Any]) -> None:
    rows = table("q|a", "q|b", "r|c", "q|d")
    source = replace(rows, columns={**rows.columns, "label": [1.0, 2.0, 3.0, 4.0]})
    data = module(source, **settings)
    data.connect(keep, keep, lower)
    data.setup()
    (batch,) = data.train_dataloader()
    assert batch.sentence_ids.shape == (batch.num_views, 4)
