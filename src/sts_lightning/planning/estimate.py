"""Memory, largest micro batch, steps and hours of a composed run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from omegaconf import DictConfig
from torch import Tensor

from sts_lightning.config.constraints import check_config
from sts_lightning.config.machine import training_chunk_tokens
from sts_lightning.data.collate import Batch, ViewCollator
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.tokenize import Prepare
from sts_lightning.models.tokenized_batch import TokenizedBatch
from sts_lightning.planning.blueprint import Blueprint, draw
from sts_lightning.planning.cards import Card, find_card, this_machine
from sts_lightning.planning.meter import Cost, Kind
from sts_lightning.planning.skeleton import build_skeleton
from sts_lightning.planning.step import Trace, trace_step
from sts_lightning.planning.workload import Workload, measure

FEW_LAYERS = (2, 3)
"""Depths of the traces from which those of a deep model are extrapolated in the search of a micro batch."""

MANY_CHUNKS = 6
"""Number of chunks from which a trace runs fewer and extrapolates; equal chunks add equal bytes."""


@dataclass(frozen=True)
class Estimate:
    """What a run takes.

    Attributes:
        card: Device of the plan.
        precision: Precision of training.
        micro_batch: Examples in a micro batch of the plan; None for the whole batch at once.
        peak: Bytes of tensors of each kind at the peak of a step of the longest rows.
        largest: Largest micro batch that fits the card, the batch size if the whole batch does; 0 if none.
        whole_fits: Whether the whole batch fits without micro batches.
        steps: Optimiser steps.
        tokens: Tokens of training, padding excluded.
        seconds: Duration on the card, evaluations included; None if its speed is not known.
        notes: Assumptions about this plan.
    """

    card: Card
    precision: str
    micro_batch: int | None
    peak: dict[Kind, int]
    largest: int
    whole_fits: bool
    steps: int
    tokens: int
    seconds: float | None
    notes: tuple[str, ...]

    @property
    def memory(self) -> int:
        """Peak of all tensors in bytes."""
        return sum(self.peak.values())

    @property
    def fits(self) -> bool:
        """Whether the plan fits the card."""
        return self.memory <= self.card.usable


def estimate(cfg: DictConfig, card: Card | str | None = None, quick: bool = False) -> Estimate:
    """Plan a run by tracing a step of it on fake tensors; no weights are read and no GPU is needed.

    The peak is that of a batch of the longest rows that the configuration allows. Micro batches are those of
    the configuration; for ``auto``, the largest that fits.

    Args:
        cfg: Composed configuration of ``train.py`` without stages.
        card: Device, by name or memory; by default this machine's.
        quick: Whether to extrapolate a deep model from few layers, and to search for the largest micro batch
            only where the configuration leaves it to the card; otherwise `Estimate.largest` is 0.

    Raises:
        ConfigError: A setting is wrong, the card is not known, or the shape of the model is not known here.
    """
    cfg = check_config(cfg)
    device, notes = _device(cfg, card)
    tracer = Tracer(cfg, device)
    wanted = cfg.trainer.micro_batch_size
    largest, whole = (0, False) if quick and wanted != "auto" else tracer.largest()
    micro = wanted if wanted != "auto" else (None if whole else max(1, largest))
    trace, traced_tokens = tracer.extrapolated(micro) if quick else tracer.full(micro)
    # The search extrapolates from few layers; a trace of all of them decides.
    while (
        not quick
        and wanted == "auto"
        and micro is not None
        and micro > 1
        and trace.peak.total() > device.usable
    ):
        largest = micro = max(1, min(micro - 1, int(micro * device.usable / trace.peak.total())))
        trace, traced_tokens = tracer.full(micro)
    sheet = tracer.blueprint(micro, FEW_LAYERS[0] if tracer.deep else None)
    work = measure(cfg, sheet.module, sheet.data, tracer.prepare)
    return Estimate(
        device,
        tracer.precision,
        micro,
        {kind: size for kind, size in trace.peak.items() if size},
        largest,
        whole,
        work.steps,
        work.tokens,
        _seconds(device, trace, traced_tokens, work, tracer.processes),
        (*notes, *sheet.notes, *work.notes),
    )


def _device(cfg: DictConfig, card: Card | str | None) -> tuple[Card, tuple[str, ...]]:
    if isinstance(card, Card):
        return card, ()
    if card is not None:
        return find_card(card), ()
    found = this_machine()
    if not found.gpu and not cfg.trainer.cpu_fallback and cfg.trainer.accelerator == "auto":
        return find_card("24GB"), ("no GPU is visible; planned for a card of 24 GB",)
    return found, ()


class Tracer:
    """Traces of steps of one configuration on one card.

    Args:
        cfg: Configuration that `check_config` has resolved.
        card: Device of the plan.
    """

    def __init__(self, cfg: DictConfig, card: Card) -> None:
        self.cfg = cfg
        self.card = card
        own = cfg.precision
        self.precision: str = card.precision if own == "auto" else own
        accelerator = "gpu" if card.gpu else "cpu"
        chunk = cfg.trainer.chunk_tokens
        usual = training_chunk_tokens(accelerator, self.precision)
        self.chunk_tokens: int = usual if chunk == "auto" else chunk
        self.processes = max(1, cfg.trainer.devices * cfg.trainer.num_nodes)
        self.batch_size = math.ceil(cfg.data.batch_size / self.processes)
        self._traces: dict[int | None, tuple[Trace, int]] = {}
        self.depth = build_skeleton(cfg.model, cfg.prompt, FEW_LAYERS[0]).depth or 0
        # A companion may be built from several layers of the encoder.
        self.deep = self.depth > 2 * FEW_LAYERS[-1] and not cfg.companion

    def blueprint(self, micro: int | None, layers: int | None) -> Blueprint:
        """Build the module with a number of layers, None for all."""
        return draw(self.cfg, self.precision, micro, layers)

    def prepare(self, encoder: SentenceEncoder, training: bool) -> Prepare:
        """Return the tokenisation of an encoder, in chunks of the run's size."""
        return encoder.prepare(self.chunk_tokens, training)

    def full(self, micro: int | None, layers: int | None = None) -> tuple[Trace, int]:
        """Trace a step of the longest rows; return it with its padded tokens.

        Args:
            micro: Number of examples in a micro batch; None for the whole batch at once.
            layers: Number of layers, None for all.
        """
        sheet = self.blueprint(micro, layers)
        whole = self._longest_batch(sheet)
        rows, recompute = sheet.module.train().chunks_of(whole)
        count = len(rows.chunks)
        tokens = sum(chunk["input_ids"].numel() for chunk in rows.chunks)
        few = 2 if recompute and self.deep else MANY_CHUNKS
        if count <= few or rows.baseline is not None:
            return self._trace(sheet, whole, rows), tokens
        if recompute:
            # One chunk runs at a time, the last beside the gradients of the others, hence two. Another one
            # adds its ids and vectors, and what the graph holds for it.
            first = _first(rows, 2)
            trace = self._trace(sheet, whole, first)
            trace.peak["activations"] += (count - 2) * trace.kept // 2
            trace.peak["vectors"] += (count - 2) * _kept_bytes(rows.chunks[0], sheet.module.encoder.dimension)
            return _scaled(trace, tokens / sum(chunk["input_ids"].numel() for chunk in first.chunks)), tokens
        two = self._trace(sheet, whole, _first(rows, 2))
        three = self._trace(self.blueprint(micro, layers), whole, _first(rows, 3))
        return _extrapolated(two, three, count - 2), tokens

    def extrapolated(self, micro: int | None) -> tuple[Trace, int]:
        """Return a step as `full` does; that of a deep model is extrapolated from few layers."""
        if micro not in self._traces:
            if self.deep:
                (low, tokens), (high, _) = (self.full(micro, layers) for layers in FEW_LAYERS)
                steps = (self.depth - FEW_LAYERS[0]) // (FEW_LAYERS[1] - FEW_LAYERS[0])
                rest = _line(low.rest, high.rest, steps)
                self._traces[micro] = replace(_extrapolated(low, high, steps), rest=rest), tokens
            else:
                self._traces[micro] = self.full(micro)
        return self._traces[micro]

    def bytes_at(self, micro: int | None) -> int:
        """Return the peak with a micro batch; that of a deep model is extrapolated in its layers."""
        return self.extrapolated(micro)[0].peak.total()

    def largest(self) -> tuple[int, bool]:
        """Return the largest micro batch that fits the card, and whether the whole batch fits without any."""
        usable = self.card.usable
        if self.bytes_at(None) <= usable:
            return self.batch_size, True
        if self.bytes_at(self.batch_size) <= usable:
            return self.batch_size, False
        return _largest(self.bytes_at, self.batch_size, usable), False

    def _longest_batch(self, sheet: Blueprint) -> Batch[TokenizedBatch]:
        """Return a batch of this process whose rows have the maximum length."""
        encoder, data = sheet.module.encoder, sheet.data
        label = 0 if data.label == "class" else 1.5
        text = "a " * encoder.tokenizer.max_length
        example = {view.column: text for view in data.views} | {"label": label}
        collate = ViewCollator(data.views, data.label, self.prepare(encoder, True))
        return collate([example] * self.batch_size)

    def _trace(self, sheet: Blueprint, batch: Batch[TokenizedBatch], rows: TokenizedBatch) -> Trace:
        cut = replace(batch, rows=rows)
        clip = self.cfg.trainer.gradient_clip_val
        trace = trace_step(sheet.module, cut, self.precision, self.card.gpu, clip)
        if self.processes > 1:  # DDP's buckets hold a second copy
            trace.peak["gradients"] += sum(
                p.numel() * p.itemsize for p in sheet.module.parameters() if p.requires_grad
            )
        return trace


def _largest(at: Callable[[int], int], most: int, usable: int) -> int:
    """Return the largest size below ``most`` that fits, where ``most`` does not; 0 if not even one does.

    The first guesses are on the line between the nearest sizes that fit and do not; memory is not quite
    linear, since smaller chunks are more chunks.
    """
    if at(1) > usable:
        return 0
    fits, exceeds, halve = 1, most, False
    while exceeds - fits > 1:
        width = exceeds - fits
        share = 0.5 if halve else (usable - at(fits)) / (at(exceeds) - at(fits))
        guess = min(exceeds - 1, max(fits + 1, fits + int(width * share)))
        if at(guess) <= usable:
            fits = guess
        else:
            exceeds = guess
        halve = not halve and 2 * (exceeds - fits) > width
    return fits


def _first(rows: TokenizedBatch, count: int) -> TokenizedBatch:
    """Return the first chunks of a batch, in their own order."""
    chunks = rows.chunks[:count]
    kept = sum(len(chunk["input_ids"]) for chunk in chunks)
    return TokenizedBatch(chunks, torch.arange(kept), sum(c["input_ids"].numel() for c in chunks))


def _kept_bytes(chunk: dict[str, Tensor], dimension: int) -> int:
    """Return the bytes that a recomputed chunk keeps until its turn: its ids, and its vectors twice."""
    ids = sum(values.numel() * values.itemsize for values in chunk.values())
    return ids + 8 * dimension * len(chunk["input_ids"])


def _scaled(trace: Trace, factor: float) -> Trace:
    def times(costs: Counter[Cost]) -> Counter[Cost]:
        return Counter({cost: round(count * factor) for cost, count in costs.items()})

    return Trace(trace.peak, trace.kept, times(trace.forward), times(trace.encoder), trace.rest)


def _extrapolated(low: Trace, high: Trace, more: int) -> Trace:
    """Return the trace of the lower number of chunks or layers and ``more``, each like the added one."""
    peak: Counter[Kind] = Counter(
        {kind: low.peak[kind] + more * (high.peak[kind] - low.peak[kind]) for kind in low.peak | high.peak}
    )
    costs = (_line(low.forward, high.forward, more), _line(low.encoder, high.encoder, more))
    return Trace(peak, high.kept, *costs, high.rest)


def _line(low: Counter[Cost], high: Counter[Cost], more: int) -> Counter[Cost]:
    return Counter({cost: low[cost] + more * (high[cost] - low[cost]) for cost in low | high})


def _seconds(card: Card, trace: Trace, traced_tokens: int, work: Workload, processes: int) -> float | None:
    encoder, forward, rest = map(card.seconds, (trace.encoder, trace.forward, trace.rest))
    if encoder is None or forward is None or rest is None:
        return None
    traced_tokens *= processes
    per_step = encoder * work.step_tokens / traced_tokens + rest
    return work.steps * per_step + (work.dev_tokens + work.report_tokens) * forward / traced_tokens
