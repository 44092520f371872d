"""Comparison of two trainings of the same weights on the same batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from transformers import get_linear_schedule_with_warmup

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.text.chunks import TokenizedBatch
from sts_lightning.training.optim import make_schedule

SENTENCES = [
    "A man is playing a guitar.",
    "Nobody sings",
    "the cat sat on the mat, and it slept for hours on end without a sound",
    "Is it raining in the north of the country today?",
    'She said "no" and left.',
    "Two dogs run through high grass.",
    "Prices rose by 3.5% in May; wages did not.",
    "a plane is taking off",
    "The committee's report was published on Monday, after a delay of several weeks and much debate.",
    "It's",
    "Children are playing football in the park",
    "An onion is being chopped",
]
"""Sentences of our own; some are cut at 32 tokens."""

CHUNK_TOKENS = 512
EPSILON = 1e-8
"""Adam's constant."""

ROUNDING = ("key.bias", "k_proj.bias")
"""Parameters whose gradient is 0 but for rounding, which Adam turns into whole steps."""

LEARNING_RATE = 1e-3


def spread(encoder: SentenceEncoder) -> SentenceEncoder:
    """Enlarge random weights, so that vectors differ as trained ones do and cosines lose no digits."""
    with torch.no_grad():
        for parameter in encoder.backbone.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)
    return encoder


def views(
    encoder: SentenceEncoder, columns: Sequence[Sequence[str]]
) -> tuple[TokenizedBatch, list[list[int]]]:
    """Our input of a batch, and the token ids of its rows, view by view."""
    batch = encoder.prepare(CHUNK_TOKENS, training=True)(columns, [None] * len(columns))
    rows = [
        ids[mask.bool()].tolist()
        for chunk in batch.chunks
        for ids, mask in zip(chunk["input_ids"], chunk["attention_mask"], strict=True)
    ]
    ordered = [rows[index] for index in batch.inverse_order.tolist()]
    return batch, ordered[: sum(map(len, columns))]


def left_padded(rows: Sequence[Sequence[int]], pad: int = 0) -> Tensor:
    """Token ids as one block, padded on the left."""
    longest = max(map(len, rows))
    return torch.tensor([[pad] * (longest - len(row)) + list(row) for row in rows])


def right_padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Token ids as one block, padded on the right, and the mask of the tokens."""
    longest = max(map(len, rows))
    mask = [[1] * len(row) + [0] * (longest - len(row)) for row in rows]
    return torch.tensor([list(row) + [pad] * (longest - len(row)) for row in rows]), torch.tensor(mask)


def close(ours: Tensor, theirs: Tensor, tolerance: float) -> None:
    """Check the largest difference relative to the largest entry."""
    assert ours.shape == theirs.shape
    largest = theirs.abs().max().item()
    assert (ours - theirs).abs().max().item() <= tolerance * largest


def global_difference(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> float:
    """Norm of the difference of two sets of tensors, relative to the norm of the second."""
    assert ours.keys() == theirs.keys()
    difference = sum((ours[name] - theirs[name]).square().sum().item() for name in theirs)
    size = sum(tensor.square().sum().item() for tensor in theirs.values())
    return float((difference / size) ** 0.5)


def five_updates(
    ours: nn.Module,
    our_loss: Callable[[int], Tensor],
    our_optimizer: torch.optim.Optimizer,
    theirs: nn.Module,
    their_loss: Callable[[int], Tensor],
    their_optimizer: torch.optim.Optimizer,
    names: Callable[[str], str],
    clip: float = 1.0,
    rounding: tuple[str, ...] = ROUNDING,
) -> None:
    """Train both for five steps, and compare losses, gradients, learning rates and weights.

    Args:
        ours: Our module.
        our_loss: Loss of a step, on the batch of that number.
        our_optimizer: Our optimiser.
        theirs: Their module.
        their_loss: Their loss.
        their_optimizer: Their optimiser.
        names: Their name of our parameter.
        clip: Largest norm of the gradient.
        rounding: Ends of the names of parameters whose steps are not compared.
    """
    our_schedule = make_schedule(our_optimizer, "linear", 2, 8)
    their_schedule = get_linear_schedule_with_warmup(their_optimizer, 2, 8)
    parameters = {names(name): parameter for name, parameter in ours.named_parameters()}
    expected = dict(theirs.named_parameters())
    assert parameters.keys() == expected.keys()
    start = {name: part.detach().clone() for name, part in expected.items()}
    for step in range(5):
        losses = []
        for module, loss in ((ours, our_loss), (theirs, their_loss)):
            value = loss(step)
            value.backward()
            losses.append(value.item())
            clip_grad_norm_(module.parameters(), clip)
        assert abs(losses[0] - losses[1]) <= 1e-5 * abs(losses[1]) + 1e-6  # logits are tens in float32
        assert losses[1] > 0
        gradients = [
            {name: part.grad.clone() for name, part in parts.items() if part.grad is not None}
            for parts in (parameters, expected)
        ]
        if step == 0:  # later ones are of weights that differ in the last digits
            found = global_difference(*gradients)
            assert found < 1e-5, found
        for optimizer, schedule in ((our_optimizer, our_schedule), (their_optimizer, their_schedule)):
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        assert our_schedule.get_last_lr()[0] == their_schedule.get_last_lr()[0]
    moves = [
        {name: part.detach() - start[name] for name, part in parts.items() if not name.endswith(rounding)}
        for parts in (parameters, expected)
    ]
    found = global_difference(*moves)
    assert found < 1e-2, found
