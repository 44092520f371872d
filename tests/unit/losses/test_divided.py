from __future__ import annotations

from typing import Any

import pytest
import torch

from sts_lightning.losses import all_losses
from sts_lightning.losses.contrastive import DecoupledLoss, InfoNCELoss
from sts_lightning.losses.divided import DividedLoss
from sts_lightning.losses.ibn import IBNLoss
from sts_lightning.losses.matryoshka import MatryoshkaLoss
from sts_lightning.losses.pearson import PearsonLoss
from tests.support.loss_cases import batch, make


def test_is_the_mean_over_consecutive_shards() -> None:
    loss = DividedLoss(PearsonLoss(), shards=3)
    views, labels = batch(loss, 8)
    assert labels is not None
    shards = [PearsonLoss()(views[:, rows], labels[rows]) for rows in (slice(0, 2), slice(2, 5), slice(5, 8))]
    torch.testing.assert_close(loss(views, labels), sum(shards, torch.tensor(0.0)) / 3)


def test_examples_of_different_shards_are_no_negatives() -> None:
    loss = DividedLoss(InfoNCELoss(), shards=2)
    views, _ = batch(loss, 6)
    views.requires_grad_()
    InfoNCELoss()(views[:, :3]).backward()
    assert views.grad is not None
    alone = views.grad.clone()
    views.grad = None
    loss(views).backward()
    torch.testing.assert_close(2 * views.grad[:, :3], alone[:, :3])


def test_sentence_numbers_are_divided_too() -> None:
    inner = IBNLoss(equal_sentences="positives")
    loss = DividedLoss(inner, shards=2)
    views, labels = batch(loss, 6)
    assert labels is not None
    numbers = torch.tensor([[0, 1, 0, 2, 3, 4], [5, 6, 7, 8, 9, 0]])
    halves = [inner(views[:, rows], labels[rows], numbers[:, rows]) for rows in (slice(0, 3), slice(3, 6))]
    torch.testing.assert_close(loss(views, labels, sentence_ids=numbers), (halves[0] + halves[1]) / 2)


REPEATS = ["abc", "dae", "fdg", "ehi", "jkj", "glm", "nop", "hqr"]
"""Triplets of sentences of one letter.

The second is left out for its a, the third for the d of the second; the fourth stays, since the second was
read only up to its a.
"""


@pytest.mark.parametrize(("shards", "kept"), [(1, [[0, 3, 5, 6]]), (2, [[0, 3], [5, 6, 7]])])
def test_rows_with_a_repeated_sentence_are_left_out(shards: int, kept: list[list[int]]) -> None:
    """The rows are those that AnglE's collator keeps, run on all triplets and on each half of them."""
    numbers = torch.tensor([[ord(letter) for letter in row] for row in REPEATS]).T
    loss = DividedLoss(InfoNCELoss(), shards, drop_duplicates=True)
    views, _ = batch(loss, len(REPEATS))
    views.requires_grad_()
    value = loss(views, sentence_ids=numbers)
    expected = torch.stack([InfoNCELoss()(views[:, rows]) for rows in kept]).mean()
    torch.testing.assert_close(value, expected)
    further = torch.cat([numbers, numbers[1:2]])  # a row with further positives, which are no sentences of it
    torch.testing.assert_close(loss(views, sentence_ids=further), expected)
    (gradient,) = torch.autograd.grad(value, views)
    moved = gradient.abs().amax(dim=(0, 2)).nonzero().flatten().tolist()
    assert moved == [row for rows in kept for row in rows]


def test_a_shard_that_keeps_no_row_has_no_term() -> None:
    loss = DividedLoss(InfoNCELoss(), 2, drop_duplicates=True)
    views = torch.randn(3, 4, 6, requires_grad=True)
    numbers = torch.tensor([[1, 4, 7, 8], [2, 5, 7, 8], [3, 6, 9, 10]])  # the last two repeat themselves
    torch.testing.assert_close(loss(views, sentence_ids=numbers), InfoNCELoss()(views[:, :2]))
    (gradient,) = torch.autograd.grad(loss(views, sentence_ids=torch.ones(3, 4, dtype=torch.int64)), views)
    assert not gradient.any()


def test_without_repeats_nothing_is_left_out() -> None:
    views, _ = batch(InfoNCELoss(), 8)
    plain, strict = DividedLoss(InfoNCELoss()), DividedLoss(InfoNCELoss(), drop_duplicates=True)
    numbers = torch.arange(24).view(3, 8)
    assert torch.equal(strict(views, sentence_ids=numbers), plain(views, sentence_ids=numbers))


def test_labels_are_left_out_with_their_rows() -> None:
    loss = DividedLoss(PearsonLoss(), shards=1, drop_duplicates=True)
    assert loss.needs.inputs == ("sentence_ids",)  # for itself; Pearson takes none
    views, labels = batch(loss, 6)
    assert labels is not None
    numbers = torch.tensor([[0, 1, 2, 3, 4, 5], [6, 7, 8, 0, 9, 10]])
    others = [0, 1, 2, 4, 5]
    torch.testing.assert_close(
        loss(views, labels, sentence_ids=numbers), PearsonLoss()(views[:, others], labels[others])
    )


def test_repeats_cannot_be_found_without_the_sentences() -> None:
    loss = DividedLoss(InfoNCELoss(), drop_duplicates=True)
    with pytest.raises(ValueError, match="DividedLoss needs sentence_ids"):
        loss(batch(loss)[0])


@pytest.mark.parametrize("stem", sorted(set(all_losses()) - {"divided", "joint"}))
def test_one_shard_is_the_inner_loss_where_shards_suffice(stem: str) -> None:
    inner = make(stem)
    if inner.needs.required_inputs:
        with pytest.raises(ValueError, match="of the whole batch; choose another loss"):
            DividedLoss(inner)
        return
    loss = DividedLoss(inner, shards=1)
    assert loss.needs.views == inner.needs.views
    assert loss.needs.labels == inner.needs.labels
    assert loss.needs.min_batch_for_gradient == inner.needs.min_batch_for_gradient
    given = batch(loss)
    torch.manual_seed(0)
    expected = inner(*given)
    torch.manual_seed(0)
    torch.testing.assert_close(loss(*given), expected)
    assert loss.metrics(*given).keys() == inner.metrics(*given).keys()


def test_a_small_last_batch_has_fewer_shards() -> None:
    loss = DividedLoss(InfoNCELoss(), shards=4)
    views, _ = batch(loss, 2)
    assert loss(views[:2]) == 0  # one pair in each shard, without a hard negative
    assert DividedLoss(PearsonLoss(), shards=4).needs.min_batch_for_gradient == 8


def test_shards_have_the_rows_that_the_loss_needs() -> None:
    inner = DecoupledLoss()
    loss = DividedLoss(inner, shards=4)
    views = torch.randn(2, 6, 4)
    expected = torch.stack([inner(views[:, first : first + 2]) for first in (0, 2, 4)]).mean()
    torch.testing.assert_close(loss(views), expected)
    assert DividedLoss(MatryoshkaLoss(inner, [2])).needs.min_batch == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [({}, "^inner is empty"), ({"inner": PearsonLoss(), "shards": 0}, "^shards must be at least 1, got 0")],
)
def test_rejects(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DividedLoss(**settings)
