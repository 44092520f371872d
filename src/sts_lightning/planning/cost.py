"""Steps, tokens, memory and time of a composed run: counted where they can be, else by closed formulas."""

from __future__ import annotations

import itertools
import json
import logging
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psutil
import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn

from sts_lightning.config.build import top_level_settings
from sts_lightning.config.check import check_config
from sts_lightning.core.cards import CARDS, CONTEXT, EFFICIENCY, GIB, Card, known_card
from sts_lightning.core.console import print_line
from sts_lightning.core.errors import ConfigError, DataError, UserError, counted
from sts_lightning.core.hardware import cpu_multiplies_bfloat16, training_chunk_tokens
from sts_lightning.data.ranking import Ranking
from sts_lightning.data.tasks import texts_in
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.training.assembly import Components, assemble
from sts_lightning.training.auxiliary.teacher import Teacher
from sts_lightning.training.trainer import count_steps
from sts_lightning.workflows.preflight import check_components, check_rows, once

WITHOUT_COST = ("name", "seed", "init_from", "optim")
"""Settings in which the jobs of a sweep differ, and which change neither memory nor time."""

DEV_PAIRS, DEV_SENTENCES, REPORT_SENTENCES = 1_500, 2_910, 26_798
"""Pairs of STS-B dev, their distinct sentences, and those of STS-B dev and the seven test sets."""

SAMPLE = 3
"""Batches that are tokenised to know the length of rows."""

SENTENCE_TOKENS = 15
"""Mean number of tokens of a sentence of NLI and STS data, special tokens and template excluded."""

ESTIMATES = (
    "activations, of rows of the longest length, and time are estimates by formulas; time needs a card by "
    f"name, such as rtx4090, and assumes {EFFICIENCY:.0%} of its peak"
)
"""What all costs assume."""


def find_card(text: str) -> Card:
    """Return a card by its name, one of which only the memory is known, such as ``24GB``, or this ``cpu``.

    Raises:
        ConfigError: It is neither.
    """
    name = text.lower()
    if name == "cpu":
        return _this_cpu()
    if name in CARDS:
        return CARDS[name]
    size = re.fullmatch(r"(\d+(?:\.\d+)?) ?gi?b", name)
    if size is None or not 0 < float(size[1]) < 1e6:
        raise ConfigError(
            f"card {text!r} is not known.",
            key="card",
            hint=f"Choose among cpu, {', '.join(CARDS)}, or give the memory, as in 24GB.",
        )
    return Card(text, int(float(size[1]) * GIB))


def this_card() -> Card:
    """Return the visible GPU with the memory that others leave, or this CPU, whose peak is not known."""
    if not torch.cuda.is_available():
        return _this_cpu()
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    free, total = torch.cuda.mem_get_info()
    # What this process holds is its own, and so is its context, which `usable` leaves room for.
    taken = max(0, total - free - torch.cuda.memory_reserved() - CONTEXT)
    precision, known = "bf16-mixed" if properties.major >= 8 else "32-true", known_card(properties.name)
    peaks = (0.0, 0.0) if known is None else (known.half, known.full)
    return Card(properties.name, total - taken, *peaks, precision)


def _this_cpu() -> Card:
    precision = "bf16-mixed" if cpu_multiplies_bfloat16() else "32-true"
    return Card("this CPU", psutil.virtual_memory().available, precision=precision, gpu=False)


@dataclass(frozen=True)
class Cost:
    """What a run takes.

    Attributes:
        card: Card that it is for.
        weights: Bytes of weights and buffers: of the encoder, the loss and an auxiliary model. Exact.
        gradients: Bytes of the gradients of what trains, twice with several processes: DDP's buckets hold
            a copy. Exact.
        optimiser: Bytes of AdamW's two moments and counters. Exact.
        activations: Bytes of activations in a step of the longest rows. An estimate, see `Shape.token_bytes`.
        micro_batch: Examples of a process in a micro batch; None for the whole batch.
        measured: Whether the micro batch is an estimate, to which ``trainer.micro_batch_size=auto`` shrinks.
        steps: Optimiser steps.
        tokens: Tokens of training, padding excluded, from a sample of its batches.
        seconds: Duration, evaluations included; None if the card's peak is not known. An estimate, see
            `Shape.token_flops`.
        notes: What was assumed.
    """

    card: Card
    weights: int
    gradients: int
    optimiser: int
    activations: int
    micro_batch: int | None
    measured: bool
    steps: int
    tokens: int
    seconds: float | None
    notes: tuple[str, ...]

    @property
    def memory(self) -> int:
        """All bytes."""
        return self.weights + self.gradients + self.optimiser + self.activations

    @property
    def fits(self) -> bool:
        """Whether the run fits the card."""
        return self.memory <= self.card.usable


def cost_of(cfg: DictConfig, card: Card | None = None, known: dict[str, Any] | None = None) -> Cost:
    """Cost a run.

    Args:
        cfg: Composed configuration of ``train.py``.
        card: Card; by default this machine's, or one of 24 GB if the run needs a GPU and none is visible.
        known: Data of earlier runs by their settings; those of this one are added.

    Raises:
        ConfigError: A setting is wrong, or the model's shape or the number of examples is not known here.
    """
    cfg, notes, known = check_config(cfg), list[str](), {} if known is None else known
    trainer = cfg.trainer
    if card is None:
        card = this_card()
        falls_back = trainer.accelerator == "auto" and trainer.cpu_fallback
        if not (card.gpu or falls_back or trainer.accelerator in ("cpu", "mps")):
            card = find_card("24GB")
            notes.append("no GPU is visible; planned for one of 24 GB")
    precision = card.precision if cfg.precision == "auto" else cfg.precision
    drawn = assemble(cfg, "meta", precision)
    check_components(drawn)
    data, encoder, auxiliary = drawn.data, drawn.encoder, drawn.auxiliary
    if isinstance(auxiliary, Teacher):
        notes.append("memory and time of the teachers are not counted")
    elif auxiliary is not None:
        auxiliary.connect(encoder)
        notes.append("activations and time of the auxiliary model are not counted")
    parts = nn.ModuleList(part for part in (encoder, drawn.loss, auxiliary) if part is not None)
    trained = [weight for weight in parts.parameters() if weight.requires_grad]
    weights, gradients = stored_bytes(parts), sum(weight.numel() * weight.itemsize for weight in trained)
    optimiser = 2 * gradients + 4 * len(trained)
    processes = max(1, trainer.devices * trainer.num_nodes)
    gradients *= 2 if processes > 1 else 1

    size, views = data.batch_sizes[data.widest], len(data.parts[data.widest].views)
    shape, again = Shape(encoder), trainer.gradient_checkpointing
    lengths = encoder.tokenizer.lengths
    length = lengths.train + lengths.added
    token = shape.token_bytes(precision, card.gpu, length, again)
    copies, example = shape.copied_bytes(precision), encoder.tokenizer.rows_of(views) * length
    batch, micro = math.ceil(size / processes), trainer.micro_batch_size
    if micro == "auto":
        micro = int((card.usable - weights - gradients - optimiser - copies) / (example * token))
    elif micro is not None:  # the setting counts the examples of all processes
        micro //= processes
    micro = None if micro is None or micro >= batch else max(1, micro)
    chunk = trainer.chunk_tokens
    if chunk == "auto":
        chunk = training_chunk_tokens("gpu" if card.gpu else "cpu", precision)
    launch = trainer.launch_tokens
    if launch == "auto":
        launch = encoder.launch_tokens(card, precision)
    alive = (batch if micro is None else micro) * example
    recomputed = 1 - alive / (batch * example)  # the last micro batch is kept

    steps, (padded, kept), evaluated, counts = _count(drawn, chunk, launch, known)
    seconds, tokens = None, int(steps * kept)
    if peak := card.peak(precision):
        row = kept / (size * encoder.tokenizer.rows_of(views))
        forward, step = shape.token_flops(row, recomputed + again)
        seconds = (steps * padded * step + evaluated * row * forward) / (peak * EFFICIENCY * processes)
    notes += [*getattr(encoder.plain_backbone, "assumed", ()), *counts]
    found = weights, gradients, optimiser, int(alive * token) + copies, micro
    return Cost(card, *found, trainer.micro_batch_size == "auto", steps, tokens, seconds, tuple(notes))


class Shape:
    """Sizes of an encoder, whose weights may be on ``meta``, and formulas of its activations and arithmetic.

    There are L layers of width D, queries of width A and keys of width K, all heads together, and matrices of
    N elements, factors of LoRA included, of which :math:`N_t` train. A token is in a row of S.
    """

    def __init__(self, encoder: SentenceEncoder) -> None:
        backbone = encoder.plain_backbone

        def setting(*names: str, default: Any) -> Any:
            known = (getattr(backbone.config, name, None) for name in names)
            return next((value for value in known if value is not None), default)

        self.layers: int = max(1, setting("num_hidden_layers", default=1))
        self.width = backbone.config.hidden_size
        self.heads = setting("num_attention_heads", default=1)
        size = setting("head_dim", default=self.width // self.heads)
        self.attention, self.keys = (
            self.heads * size,
            setting("num_key_value_heads", default=self.heads) * size,
        )
        linear = [part for part in backbone.modules() if not isinstance(part, nn.Embedding)]
        self.matrices = [each for part in linear for each in part.parameters(recurse=False) if each.ndim == 2]
        factors = {id(weight) for name, weight in backbone.named_parameters() if "lora_" in name}
        self.own = [weight for weight in self.matrices if id(weight) not in factors]
        inner = setting("intermediate_size", "ffn_dim", "d_ff", "n_inner", default=4 * self.width)
        # An MLP with a gate has three matrices, and keeps four numbers for each of its width.
        mlp = sum(map(torch.numel, self.own)) / self.layers - 2 * self.width * (self.attention + self.keys)
        self.inner = inner * (4 if mlp > 2.5 * self.width * inner else 2)
        self.drops = setting("hidden_dropout_prob", "dropout", "resid_pdrop", "dropout_rate", default=0) > 0
        names = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")
        self.drops_attention = setting(*names, default=0) > 0
        self.eager = setting("_attn_implementation", default="sdpa") == "eager"
        self.trains = any(weight.requires_grad for weight in encoder.parameters())

    def token_bytes(self, precision: str, gpu: bool, length: int, checkpointing: bool = False) -> float:
        r"""Estimate the bytes that a token keeps for the backward pass.

        .. math:: L [8 D + s (2 D + 2 A + 2 K + m F)]

        A layer keeps the inputs of its two norms in float32, and in the s bytes of a number under the
        precision the inputs of its products, queries, keys, values, and m = 2 times the width F of its MLP, 4
        with a gate. Dropout adds two masks of D numbers. Where attention is not fused (dropout on a CPU) each
        head keeps three numbers in float32 for each token of the row, and there are copies of queries and
        keys. Checkpoints keep D numbers of each layer, and one whole layer; a frozen encoder keeps one layer.
        Sentence vectors and the loss are not counted.

        Args:
            precision: Precision of training, in Lightning's names.
            gpu: Whether a GPU trains.
            length: S, tokens of a row.
            checkpointing: Whether layers are computed again in the backward pass.
        """
        size = 4 if precision == "32-true" else 2
        layer: float = 8 * self.width + size * (2 * (self.width + self.attention + self.keys) + self.inner)
        if self.drops:
            layer += 2 * self.width * (1 if gpu else size)
        if self.eager or (self.drops_attention and not gpu):
            layer += 4 * 3 * self.heads * length + 2 * size * self.attention
        if not self.trains:
            return layer
        return layer + self.layers * self.width * size if checkpointing else self.layers * layer

    def copied_bytes(self, precision: str) -> int:
        """Count the copies in 16 bits that autocast keeps of the model's own matrices, if they train."""
        if precision == "32-true":
            return 0
        return 2 * sum(weight.numel() for weight in self.own if weight.requires_grad)

    def token_flops(self, length: float, again: float = 0) -> tuple[float, float]:
        r"""Count the floating-point operations of a token in products: of a forward pass, and of a step.

        .. math:: f = 2 N + 4 L A S, \qquad b = 2 N + 8 L A S + 2 N_t

        Each element of a matrix multiplies and adds once; attention has two products with the S tokens. The
        backward pass b computes gradients of all inputs and of the weights that train. A step has f + b, and
        f for each time that it is computed again.

        Args:
            length: S, mean number of tokens of a row.
            again: Recomputations: the part that micro batches recompute, and one by checkpoints.
        """
        count = sum(map(torch.numel, self.matrices))
        trained = sum(weight.numel() for weight in self.matrices if weight.requires_grad)
        attention = 4 * self.layers * self.attention * length
        forward = 2 * count + attention
        backward = 2 * count + 2 * attention + 2 * trained if self.trains else 0
        return forward, forward * (1 + again) + backward


def _count(
    components: Components, chunk: int, launch: int, known: dict[str, Any]
) -> tuple[int, tuple[float, float], int, list[str]]:
    """Count the steps, the tokens of one with and without padding, the rows of all evaluations; and notes."""
    cfg, data, encoder = components.cfg, components.data, components.encoder
    final, notes = cfg.evaluation.final, []
    try:
        check_rows(components, known)
    except DataError as error:
        count = data.data_set.published_rows
        if count is None:
            raise ConfigError(f"the plan needs the data, as no published count is known: {error}") from error
        examples = min(count, cfg.data.get("limit") or count)
        size, views = data.batch_sizes[data.widest], len(data.parts[data.widest].views)
        batches, row = math.ceil(examples / size), SENTENCE_TOKENS + encoder.tokenizer.lengths.added
        padded = kept = float(row * size * encoder.tokenizer.rows_of(views))
        pairs, sentences = DEV_PAIRS, REPORT_SENTENCES if final else DEV_SENTENCES
        notes.append(f"{examples:,} examples as published, of about {row} tokens; the data is not here")
    else:
        data.num_workers, data.numbered = 0, ()  # known positives change the order of rows alone
        data.connect(encoder.prepare(chunk, True, launch), encoder.prepare(chunk, False, launch))
        loader = data.train_dataloader()
        batches, seen = len(loader), [batch.rows for batch in itertools.islice(loader, SAMPLE)]
        padded = sum(each.padded_tokens for each in seen) / len(seen)
        kept = sum(each.num_tokens for each in seen) / len(seen)
        pairs = sum(map(len, texts_in(data.dev, ()))) // (2 if isinstance(data.dev, Ranking) else 1)
        tables = texts_in(data.dev, data.tests if final else ())
        sentences = once(known, lambda: len(_sentences(tables)), [cfg.data, top_level_settings(cfg), final])
    steps = count_steps(cfg.trainer, batches)
    validations = steps.total_steps // steps.val_steps + 1  # once before the first step
    reports = 2 if cfg.evaluation.untuned else 1  # which embed each sentence once
    return steps.total_steps, (padded, kept), 2 * pairs * validations + sentences * reports, notes


def _sentences(tables: Iterable[Any]) -> set[str]:
    columns = (table[name] for table in tables for name in table.columns)
    return {text for column in columns for text in column if isinstance(text, str)}


def line(cost: Cost) -> str:
    """Return memory, micro batch, steps, tokens and time in one line."""
    state = (("weights", cost.weights), ("gradients", cost.gradients), ("optimiser", cost.optimiser))
    parts = [f"{name} {size(count)}" for name, count in state]
    parts.append(f"activations about {size(cost.activations)}")
    parts.append(f"{'fits' if cost.fits else 'does not fit'} {cost.card.name}")
    if cost.micro_batch is not None:
        about = "about {} (auto shrinks to it)" if cost.measured else "{}"
        parts.append(f"micro batch {about.format(cost.micro_batch)}")
    parts += [counted(cost.steps, "step"), f"{cost.tokens / 1e6:.1f} M tokens"]
    if cost.seconds is not None:
        parts.append(f"about {duration(cost.seconds)}")
    return ", ".join(parts)


def print_costs(
    runs: Iterable[tuple[str, DictConfig]], card: str | None, known: dict[str, Any] | None = None
) -> list[Cost | UserError]:
    """Print runs, each with its cost or why it is not known, then what the costs assume.

    Runs that are equal but for `WITHOUT_COST` are computed once.

    Args:
        runs: A line for each, empty for none, and its composed configuration.
        card: Name or memory of a card; None for that of `cost_of`.
        known: See `cost_of`.

    Returns:
        The cost of each run, or the error for which it has none.

    Raises:
        ConfigError: The card is not known.
    """
    chosen, known = None if card is None else find_card(card), {} if known is None else known
    costs, found = dict[str, Cost | UserError](), []
    for title, cfg in runs:
        if title:
            print_line(title)
        values: Any = OmegaConf.to_container(cfg)
        key = json.dumps({name: value for name, value in values.items() if name not in WITHOUT_COST})
        if key not in costs:
            logging.disable(logging.INFO)  # what is told of data and models
            try:
                costs[key] = cost_of(cfg, chosen, known)
            except UserError as error:
                costs[key] = error
            finally:
                logging.disable(logging.NOTSET)
        found.append(each := costs[key])
        text = line(each) if isinstance(each, Cost) else f"no plan: {str(each).partition(chr(10))[0]}"
        print_line(f"{'':10}{text}", style="dim")
    notes = [note for each in found if isinstance(each, Cost) for note in (*each.notes, ESTIMATES)]
    for note in dict.fromkeys(notes):
        print_line(f"note: {note}", style="dim")
    return found


def size(count: int) -> str:
    """Return a number of bytes with a unit."""
    return f"{count / GIB:.2f} GiB" if count >= GIB // 10 else f"{count / 2**20:.1f} MiB"


def duration(seconds: float) -> str:
    """Return a time with a unit."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def stored_bytes(module: nn.Module) -> int:
    """Count the bytes of weights and buffers, those of bitsandbytes as they are once they are quantised.

    A 4-bit weight of n elements has n / 2 bytes, a scale of one byte for 64 elements, for 256 of these one in
    float32, their mean, and tables of 16 and of 256 numbers. An 8-bit weight has n bytes and a scale in
    float32 for each output.
    """
    total = 0
    for tensor in itertools.chain(module.parameters(), module.buffers()):
        count, kind = tensor.numel(), type(tensor).__name__
        if kind == "Params4bit":
            scales = math.ceil(count / 64)
            total += math.ceil(count / 2) + scales + 4 * (math.ceil(scales / 256) + 1 + 16 + 256)
        elif kind == "Int8Params":
            total += count + 4 * len(tensor)
        else:
            total += count * tensor.itemsize
    return total
