"""InfoCSE's auxiliary network: masked words are predicted from the sentence's vector and lower layers."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sts_lightning.models.compute.gradient_cache import recomputed
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.papers.auxiliary.random_weights import random_weights
from sts_lightning.training.auxiliary.base import AuxiliaryModel, Step

MASKS = 0x4D41534B
"""Number that is mixed into the keys of rows."""

WEYL = -0x61C8864680B583EB  # 2^64 divided by the golden ratio, as a signed number
ROUNDS = ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15))
DIGITS = 21
"""Bits of a position along one dimension of a tensor."""

INTEGER_BITS = 24
"""Bits of a random number: those that float32 holds exactly."""


class MaskedLanguageModel(AuxiliaryModel):
    r"""Masked-language-model loss of a network above the vector of [CLS] (InfoCSE, Wu et al. 2022).

    .. math:: L = -\frac{1}{|M|} \sum_{(s, t) \in M} \log p\bigl(w_t \mid
        g([h_{\text{CLS}}(s);\; e_1(\tilde s), \dots, e_n(\tilde s)])\bigr)

    A copy of the encoder's lower layers, frozen and without dropout, reads the sentence with some words
    masked (80 % [MASK], 10 % another word, 10 % as it is) and gives e. The encoder in training reads
    all of the sentence and gives the vector of [CLS] before the projection. The network g and its head train.
    What the lower layers cannot tell about the masked words M has to be in that vector.

    Use it with `InfoCSELoss`, which adds the value to InfoNCE, for a BERT or RoBERTa with ``pooling: cls``.

    g starts from the encoder's last layers, and the output layer is the frozen table of word embeddings with
    a new transform and bias. `PaperCodeMaskedLanguageModel` starts otherwise.

    Which words are masked depends on the run's seed, the step and the example, and not on how the batch is
    divided; the mean is over the words of all processes.

    Args:
        lower_layers: Number of the encoder's first layers that read the masked sentence.
        layers: Number of layers of g.
        mask_rate: Fraction of words to mask, in (0, 1).

    Raises:
        ValueError: A value is out of range.
    """

    provides = "masked_lm"
    above = "upper"
    extra_views = 1
    special: Tensor
    lower: Any
    upper: Any
    table: nn.Parameter | None
    """Table of the output layer; None: the frozen word embeddings."""

    def __init__(self, lower_layers: int = 6, layers: int = 2, mask_rate: float = 0.4) -> None:
        super().__init__()
        for name, count in (("lower_layers", lower_layers), ("layers", layers)):
            if count < 1:
                raise ValueError(f"{name} must be at least 1, got {count}.")
        if not 0 < mask_rate < 1:
            raise ValueError(f"mask_rate must lie in (0, 1), got {mask_rate}.")
        self.lower_layers = lower_layers
        self.layers = layers
        self.mask_rate = mask_rate

    def connect(self, encoder: SentenceEncoder) -> None:
        """Copy the lower layers, and build the upper network from the last ones."""
        backbone: Any = encoder.plain_backbone
        stack = getattr(getattr(backbone, "encoder", None), "layer", None)
        mask_id = encoder.tokenizer.tokenizer.mask_token_id
        if not isinstance(stack, nn.ModuleList) or not hasattr(backbone, "embeddings") or mask_id is None:
            raise ValueError(
                f"a masked language model needs a model like BERT, not {type(backbone).__name__}."
            )
        if encoder.config.pooling != "cls" or encoder.config.layer != -1 or encoder.config.denoise != "none":
            raise ValueError(
                "a masked language model needs pooling: cls of the last layer, without denoising."
            )
        for name, count in (("lower_layers", self.lower_layers), ("layers", self.layers)):
            if count > len(stack):
                raise ValueError(f"{name} must be at most {len(stack)}, the model's depth, got {count}.")
        tokenizer = encoder.tokenizer.tokenizer
        self.mask_id, self.words = mask_id, len(tokenizer)
        self.register_buffer("special", torch.tensor(tokenizer.all_special_ids), persistent=False)
        self.lower = copy.deepcopy(backbone).requires_grad_(False)
        self.lower.encoder.layer = self.lower.encoder.layer[: self.lower_layers]
        self.upper = self.last_layers(backbone)
        size = encoder.dimension
        norm = nn.LayerNorm(size, eps=backbone.config.layer_norm_eps)
        self.transform = nn.Sequential(nn.Linear(size, size), nn.GELU(), norm)
        self.register_parameter("table", None)
        self.bias = nn.Parameter(torch.zeros(len(backbone.get_input_embeddings().weight)))

    def last_layers(self, backbone: Any) -> nn.Module:
        """Copy the last layers of a model, to train."""
        upper: Any = copy.deepcopy(backbone.encoder).requires_grad_(True)
        upper.layer = upper.layer[-self.layers :]
        assert isinstance(upper, nn.Module)
        return upper

    def train(self, mode: bool = True) -> Self:
        """Set the mode; the lower layers never use dropout."""
        super().train(mode)
        if hasattr(self, "lower"):
            self.lower.eval()
        return self

    def forward(self, step: Step) -> Tensor:
        """Compute the loss of the masked words of all views, a scalar in float32."""
        rows, device = step.rows, step.pooled.device
        # An empty shard embeds one example as a placeholder.
        examples = range(step.batch.size)[step.batch.shard.slice_of(step.batch.size)] or range(1)
        values = (step.pooled, row_keys(*step.position, step.batch.num_views, examples).to(device))
        sums, counts = [], []
        for chunk, pooled, keys in zip(rows.chunks, *map(rows.by_chunk, values), strict=True):
            ids, attended = (chunk[name].to(device) for name in ("input_ids", "attention_mask"))
            masked, chosen = mask_words(ids, self.special, self.mask_id, self.words, self.mask_rate, keys)
            chunk_loss = partial(recomputed, device, self._chunk_loss) if step.recompute else self._chunk_loss
            sums.append(chunk_loss(pooled, ids, masked, positions(chosen), attended))
            counts.append(chosen.sum(dim=1))
        sums_and_counts = rows.in_sentence_order(
            torch.stack([torch.cat(sums), torch.cat(counts).float()], dim=-1)
        )
        total = step.total(sums_and_counts.unflatten(0, (step.batch.num_views, -1)))
        return total[0] / total[1].clamp(min=1.0)

    def _chunk_loss(
        self, vectors: Tensor, ids: Tensor, masked: Tensor, positions: Tensor, attended: Tensor
    ) -> Tensor:
        """Sum -log p of the chosen words of each row of a padded chunk, (n,)."""
        with torch.no_grad():
            states = self.lower(input_ids=masked, attention_mask=attended).last_hidden_state
        states = torch.cat([vectors[:, None], states[:, 1:].to(vectors.dtype)], dim=1)
        hidden = (1.0 - attended[:, None, None].to(states.dtype)) * torch.finfo(states.dtype).min
        states = self.upper(states, attention_mask=hidden).last_hidden_state.flatten(0, 1)[positions]
        table = self.lower.get_input_embeddings().weight if self.table is None else self.table
        scores = F.linear(self.transform(states), table, self.bias)
        losses = F.cross_entropy(scores.float(), ids.flatten()[positions], reduction="none")
        rows: Tensor = losses.new_zeros(len(ids)).index_add(0, positions // ids.shape[1], losses)
        return rows


class PaperCodeMaskedLanguageModel(MaskedLanguageModel):
    """Masked language model whose upper network and output layer start and train as in the authors' code.

    g starts from `random weights
    <https://github.com/caskcsg/sentemb/blob/5eeec55103c1da738761bf8c6a9c085c6ad1c9a1/InfoCSE/infocse/models_cls_mlm.py#L343-L346>`_,
    unless Condenser is a local folder, which has another head, and the output layer has a `separate table
    <https://github.com/caskcsg/sentemb/blob/5eeec55103c1da738761bf8c6a9c085c6ad1c9a1/InfoCSE/train_cls_mlm.py#L417>`_,
    which trains. The code also starts the transform from the pre-trained one, this class does not.
    """

    def connect(self, encoder: SentenceEncoder) -> None:
        """Build both networks; see `MaskedLanguageModel.connect`."""
        super().connect(encoder)
        backbone: Any = encoder.plain_backbone
        self.upper = self.last_layers(random_weights(backbone))
        self.table = nn.Parameter(backbone.get_input_embeddings().weight.detach().clone())


def positions(chosen: Tensor) -> Tensor:
    """Return the positions of chosen words in the flattened rows, (M,)."""
    return chosen.flatten().nonzero().squeeze(1)


def mask_words(
    ids: Tensor, special: Tensor | Sequence[int], mask_id: int, words: int, rate: float, keys: Tensor
) -> tuple[Tensor, Tensor]:
    """Mask words as BERT does: of those chosen 80 % become the mask, 10 % a random word, 10 % stay.

    Args:
        ids: Token ids, (N, L).
        special: Ids that are never chosen, such as those of [CLS] and padding.
        mask_id: Id of the mask.
        words: Size of the vocabulary.
        rate: Fraction of words to choose.
        keys: Key of each row, (N,) in int64, which decides what is drawn.

    Returns:
        The changed ids, and whether each word was chosen, both (N, L).
    """
    allowed = ~torch.isin(ids, torch.as_tensor(special, device=ids.device))
    first, second, third = random_integers(mix(keys ^ MASKS), (3, ids.shape[1])).unbind(dim=1)
    chosen = allowed & (first / 2**INTEGER_BITS < rate)
    change = second / 2**INTEGER_BITS
    masked = torch.where(chosen & (change < 0.8), mask_id, ids)
    return torch.where(chosen & (change >= 0.9), third * words >> INTEGER_BITS, masked), chosen


def random_integers(keys: Tensor, shape: Sequence[int]) -> Tensor:
    """Return an integer of `INTEGER_BITS` bits for each position of a row, (n, *shape) in int64.

    It is the finaliser of SplitMix64 (`Steele et al. 2014 <https://doi.org/10.1145/2660193.2660195>`_) of key
    and position alone, and not on the other rows or on the shape.

    Args:
        keys: Key of each row, scrambled (`mix`), (n,) in int64.
        shape: Shape of a row, at most three dimensions of at most 2^21.
    """
    code = torch.zeros((), dtype=torch.int64, device=keys.device)
    for size in shape:
        code = (code[..., None] << DIGITS) + torch.arange(size, device=keys.device)
    mixed = mix(keys.reshape(-1, *(1 for _ in shape)) + code)
    return mixed >> 64 - INTEGER_BITS & (1 << INTEGER_BITS) - 1


def mix(x: Tensor) -> Tensor:
    """Scramble 64-bit integers, each to a different value (SplitMix64's finaliser)."""
    x = x + WEYL
    for bits, factor in ROUNDS:
        x = (x ^ _shifted(x, bits)) * factor
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Shift to the right as unsigned numbers."""
    return x >> bits & (1 << 64 - bits) - 1


def row_keys(seed: int, epoch: int, batch: int, num_views: int, examples: range) -> Tensor:
    """Return the keys of the rows of a batch, view-major, (V * b,) in int64.

    Args:
        seed: Random seed of the run.
        epoch: Number of the epoch.
        batch: Number of the batch in the epoch.
        num_views: Number of views V of an example.
        examples: Positions of the examples in the batch of all processes, b of them.
    """
    keys = mix(torch.tensor(seed))
    for number in (epoch, batch):
        keys = mix(keys + number)
    views = torch.arange(num_views)[:, None]
    return (mix(mix(keys + torch.arange(examples.start, examples.stop)) + views)).flatten()
