"""Memory, largest micro batch, steps and hours of a composed run."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.build import build, shared_settings
from sts_lightning.config.check import check_config
from sts_lightning.config.machine import trained_model, training_chunk_tokens
from sts_lightning.core.errors import ConfigError, DataError
from sts_lightning.data.collate import Batch, ViewCollator
from sts_lightning.data.data_set import Splits
from sts_lightning.data.module import DataModule
from sts_lightning.data.ranking import Ranking
from sts_lightning.data.tables import values_of
from sts_lightning.data.tasks import texts_in
from sts_lightning.models.encoder import SentenceEncoder, freeze
from sts_lightning.models.text.tokenizer import Prepare, TokenizedBatch
from sts_lightning.planning.auxiliary import draw_auxiliary
from sts_lightning.planning.gpus import Device, device_for, this_machine
from sts_lightning.planning.meter import Purpose
from sts_lightning.planning.skeleton import build_skeleton
from sts_lightning.planning.trace_step import LossTrace, Trace, trace_step
from sts_lightning.regularizers.base import Regularizer
from sts_lightning.training.assembly import make_data, make_loss, make_module
from sts_lightning.training.module import STSModule
from sts_lightning.training.trainer import StepCount, count_steps

FEW_LAYERS = (2, 3)
"""Depths of the traces from which that of a deep model is extrapolated; equal layers add equal bytes."""

FIRST_SIZE = 20
"""Examples in the micro batch that is traced first: near what 24 GB hold of the 7B recipes."""

T = TypeVar("T")

MANY_CHUNKS = 6
"""Number of chunks from which a trace runs fewer and extrapolates; equal chunks add equal bytes."""


@dataclass(frozen=True)
class Estimate:
    """What a run takes.

    Attributes:
        device: Device of the plan.
        precision: Precision of training.
        micro_batch: Examples of a process in a micro batch of the plan; None for the whole batch at once.
        peak: Bytes of tensors for each purpose at the peak of a step of the longest rows.
        steps: Optimiser steps.
        tokens: Tokens of training, padding excluded.
        seconds: Duration on the device, evaluations included; None if its speed is not known.
        notes: Assumptions about this plan.
    """

    device: Device
    precision: str
    micro_batch: int | None
    peak: dict[Purpose, int]
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
        """Whether the plan fits the device."""
        return self.memory <= self.device.usable


def estimate(
    cfg: DictConfig, device: Device | None = None, splits: dict[str, Splits] | None = None
) -> Estimate:
    """Plan a run by tracing a step of it on fake tensors; no weights are read and no GPU is needed.

    The peak is that of a batch of the longest rows that the configuration allows. Micro batches are those of
    the configuration; for ``auto``, the largest that fits.

    Args:
        cfg: Composed configuration of ``train.py`` without stages.
        device: Device; by default this machine's.
        splits: Data that was read for earlier plans, by its settings; that of this one is added.

    Raises:
        ConfigError: A setting is wrong, or the shape of the model is not known here.
    """
    cfg = check_config(cfg)
    machine, notes = device or this_machine(), []
    target = device or device_for(cfg, machine)
    if target is not machine:
        notes.append("no GPU is visible; planned for one of 24 GB")
    tracer = Tracer(cfg, target)
    micro = cfg.trainer.micro_batch_size
    if micro == "auto":
        largest = tracer.largest()
        micro = None if largest is None else max(1, largest)
    elif micro is not None:  # the setting counts the examples of all processes
        micro = max(1, micro // tracer.processes)
    trace, traced_tokens = tracer.trace(micro)
    if cfg.trainer.micro_batch_size != "auto" and trace.peak.total() > target.usable:
        notes.append("trainer.micro_batch_size=auto plans the largest micro batch that fits")
    sheet = draw(cfg, tracer.precision, micro, FEW_LAYERS[0] if tracer.deep else None)
    if cfg.trainer.micro_batch_size == "auto" and micro is not None:  # which counts padded tokens
        sheet.module.micro_batch_size = None
        sheet.module.micro_batch_tokens = micro * traced_tokens // tracer.batch_size
    if splits is not None:
        _read_once(cfg, sheet.data, splits)
    work = measure(cfg, sheet.module, sheet.data, tracer.prepare)
    return Estimate(
        target,
        tracer.precision,
        micro,
        {purpose: size for purpose, size in trace.peak.items() if size},
        work.steps,
        work.tokens,
        _seconds(target, trace, traced_tokens, work, tracer.processes),
        (*notes, *sheet.notes, *work.notes),
    )


class Tracer:
    """Traces of steps of one configuration on one device.

    Args:
        cfg: Configuration that `check_config` has resolved.
        device: Device of the plan.
    """

    def __init__(self, cfg: DictConfig, device: Device) -> None:
        self.cfg = cfg
        self.device = device
        self.precision: str = device.precision if cfg.precision == "auto" else cfg.precision
        self.chunk_tokens: int = cfg.trainer.chunk_tokens
        if cfg.trainer.chunk_tokens == "auto":
            self.chunk_tokens = training_chunk_tokens("gpu" if device.gpu else "cpu", self.precision)
        self.processes = max(1, cfg.trainer.devices * cfg.trainer.num_nodes)
        self.batch_size = math.ceil(make_data(cfg).batch_size / self.processes)
        self._loss: LossTrace | None = None
        self._longest: Batch[TokenizedBatch] | None = None
        self._traces: dict[int | None, tuple[Trace, int]] = {}
        self.depth = build_skeleton(cfg.model, cfg.prompt, FEW_LAYERS[0]).depth or 0
        # An auxiliary model may be built from several layers of the encoder.
        self.deep = self.depth > 2 * FEW_LAYERS[-1] and not cfg.auxiliary

    def prepare(self, encoder: SentenceEncoder, training: bool) -> Prepare:
        """Return the tokenisation of an encoder, in chunks of the run's size."""
        return encoder.prepare(self.chunk_tokens, training)

    def full(self, micro: int | None, layers: int | None = None) -> tuple[Trace, int]:
        """Trace a step of the longest rows; return it with its padded tokens.

        Args:
            micro: Number of examples in a micro batch; None for the whole batch at once.
            layers: Number of layers, None for all.
        """
        sheet = draw(self.cfg, self.precision, micro, layers)
        whole = self._longest_batch(sheet)
        rows, recompute = sheet.module.train().chunks_of(whole)
        count = len(rows.chunks)
        tokens = sum(chunk["input_ids"].numel() for chunk in rows.chunks)
        few = 2 if recompute and self.deep else MANY_CHUNKS
        if count <= few or rows.baseline is not None:
            return self._step(sheet, whole, rows), tokens
        if recompute:
            # One chunk runs at a time, the last beside the gradients of the others, hence two. Another one
            # adds its ids and vectors, and what the graph holds for it.
            first = _first(rows, 2)
            trace = self._step(sheet, whole, first)
            trace.peak["activations"] += (count - 2) * trace.kept // 2
            chunk = rows.chunks[0]
            ids = sum(values.numel() * values.itemsize for values in chunk.values())
            vectors = 8 * sheet.module.encoder.dimension * len(chunk["input_ids"])  # twice, in float32
            trace.peak["vectors"] += (count - 2) * (ids + vectors)
            factor = tokens / first.num_tokens
            forward, encoder = (
                Counter({cost: round(number * factor) for cost, number in costs.items()})
                for costs in (trace.forward, trace.encoder)
            )
            return replace(trace, forward=forward, encoder=encoder), tokens
        two = self._step(sheet, whole, _first(rows, 2))
        three = self._step(draw(self.cfg, self.precision, micro, layers), whole, _first(rows, 3))
        return _extrapolated(two, three, count - 2), tokens

    def trace(self, micro: int | None) -> tuple[Trace, int]:
        """Return a step as `full` does; that of a deep model is extrapolated from few layers."""
        if micro not in self._traces and self.deep:
            (low, tokens), (high, _) = (self.full(micro, layers) for layers in FEW_LAYERS)
            self._traces[micro] = _extrapolated(low, high, self.depth - FEW_LAYERS[0]), tokens
        elif micro not in self._traces:
            self._traces[micro] = self.full(micro)
        return self._traces[micro]

    def bytes_at(self, micro: int | None) -> int:
        """Return the peak with a micro batch."""
        return self.trace(micro)[0].peak.total()

    def largest(self) -> int | None:
        """Return the largest micro batch that fits, 0 if none; None if the whole batch does at once.

        Memory is nearly a line in the size of a micro batch. The next size to trace is where the line through
        the last two reaches the memory of the device, until that is a traced size; after four, the middle of
        those that are left. The whole batch at once takes no less than as a single micro batch.
        """
        usable, whole = self.device.usable, self.batch_size
        fits, fails = 0, whole + 1
        sizes = [min(FIRST_SIZE, whole)]
        while (size := sizes[-1]) > fits:
            peak = self.trace(size)[0].peak
            excess = peak.total() - usable
            fits, fails = (size, fails) if excess <= 0 else (fits, size)
            growth, lowest = peak["activations"] / size, fits + 1  # of one trace, which may be too steep
            if len(sizes) > 1:
                growth, lowest = (peak.total() - self.bytes_at(sizes[-2])) / (size - sizes[-2]), fits
            if len(sizes) > 4:
                reached = (fits + fails) // 2
            elif growth > 0:
                reached = size - math.ceil(excess / growth)
            else:
                reached = whole if excess <= 0 else 1
            sizes.append(min(max(reached, lowest, 1), fails - 1))
        return None if fits == whole and self.bytes_at(None) <= usable else fits

    def _longest_batch(self, sheet: Blueprint) -> Batch[TokenizedBatch]:
        """Return a batch of this process whose rows have the maximum length, the same for all traces."""
        if self._longest is not None:
            return self._longest
        encoder, data = sheet.module.encoder, sheet.data
        label = 0 if data.label == "class" else 1.5
        text = "a " * encoder.tokenizer.max_length
        example = {view.column: text for view in data.views} | {"label": label}
        collate = ViewCollator(data.views, data.label, self.prepare(encoder, True))
        batch = collate([example] * self.batch_size)
        # As of different sentences, since a loss may leave out the rows that repeat one.
        numbers = torch.arange(batch.num_views * batch.size).view(batch.num_views, -1)
        self._longest = replace(batch, sentence_ids=numbers, part=data.widest)
        return self._longest

    def _step(self, sheet: Blueprint, batch: Batch[TokenizedBatch], rows: TokenizedBatch) -> Trace:
        clip = self.cfg.trainer.gradient_clip_val
        step = replace(batch, rows=rows)
        trace = trace_step(sheet.module, step, self.precision, self.device.gpu, clip, self._loss)
        self._loss = trace.loss
        if self.processes > 1:  # DDP's buckets hold a second copy
            trace.peak["gradients"] += sum(
                p.numel() * p.itemsize for p in sheet.module.parameters() if p.requires_grad
            )
        return trace


def _first(rows: TokenizedBatch, count: int) -> TokenizedBatch:
    """Return the first chunks of a batch, in the order of the chunks."""
    chunks = rows.chunks[:count]
    kept = sum(len(chunk["input_ids"]) for chunk in chunks)
    return TokenizedBatch(chunks, torch.arange(kept), sum(c["input_ids"].numel() for c in chunks))


def _extrapolated(low: Trace, high: Trace, more: int) -> Trace:
    """Return the trace of the lower number of chunks or layers and ``more``, each like the added one."""

    def line(low: Counter[T], high: Counter[T]) -> Counter[T]:
        return Counter({key: low[key] + more * (high[key] - low[key]) for key in low | high})

    return Trace(
        line(low.peak, high.peak),
        high.kept,
        line(low.forward, high.forward),
        line(low.encoder, high.encoder),
        line(low.rest, high.rest),
    )


def _seconds(
    device: Device, trace: Trace, traced_tokens: int, work: Workload, processes: int
) -> float | None:
    if not device.bandwidth:
        return None
    encoder, forward, rest = map(device.seconds, (trace.encoder, trace.forward, trace.rest))
    traced_tokens *= processes
    per_step = encoder * work.step_tokens / traced_tokens + rest
    return work.steps * per_step + work.evaluated * forward / traced_tokens


def _read_once(cfg: DictConfig, data: DataModule, splits: dict[str, Splits]) -> None:
    """Let a data module take what was read for another of the same settings."""
    settings = {name: value for name, value in cfg.data.items() if name not in ("batch_size", "num_workers")}
    key = json.dumps([settings, shared_settings(cfg)], default=OmegaConf.to_container)
    read = data.data_set.read

    def read_once() -> Splits:
        if key not in splits:
            splits[key] = read()
        return splits[key]

    data.data_set = replace(data.data_set, read=read_once)


NO_STEPS = StepCount(1, 10**9, 1)
"""Length of a run whose schedule never matters."""


@dataclass(frozen=True)
class Blueprint:
    """A module that can be traced, but not trained.

    Attributes:
        module: Encoder without weights, loss, and the factory of the optimiser.
        data: Data module; no file has been read.
        notes: What was taken from elsewhere than the model's own files.
    """

    module: STSModule
    data: DataModule
    notes: tuple[str, ...]


def draw(cfg: DictConfig, precision: str, micro: int | None, layers: int | None = None) -> Blueprint:
    """Build the parts of a run that a step needs.

    Args:
        cfg: Configuration that `check_config` has resolved.
        precision: Precision of training, in Lightning's names.
        micro: Number of examples in a micro batch; None for no micro batches.
        layers: Number of layers to build instead of all; ignored where the model's class builds itself.

    Raises:
        ConfigError: The shape of the model is not known here, or a setting is out of range.
    """
    data = make_data(cfg)
    skeleton = build_skeleton(trained_model(cfg, precision), cfg.prompt, layers)
    encoder = skeleton.encoder
    loss = make_loss(cfg.loss, encoder.dimension, data.parts)
    freeze(encoder, cfg.optim.freeze)
    auxiliary, notes = draw_auxiliary(cfg, encoder)
    if cfg.trainer.gradient_checkpointing:
        encoder.checkpoint_layers()
    regularizer = build("regularizer", cfg.regularizer, Regularizer) if cfg.regularizer else None
    module = make_module(cfg, precision, encoder, loss, regularizer, NO_STEPS, auxiliary=auxiliary)
    module.micro_batch_size = micro
    return Blueprint(module, data, (*skeleton.notes, *notes))


DEV_PAIRS, DEV_SENTENCES, REPORT_SENTENCES = 1_500, 2_910, 26_798
"""Pairs of STS-B dev, their distinct sentences, and those of STS-B dev and the seven test sets."""

SENTENCE_TOKENS = 15
"""Mean number of tokens of a sentence of NLI and STS data, special tokens and template excluded."""


@dataclass(frozen=True)
class Workload:
    """What a run embeds.

    Attributes:
        steps: Optimiser steps.
        step_tokens: Padded tokens of a step.
        tokens: Tokens of the whole training, padding excluded.
        evaluated: Tokens of all evaluations, whose sentences are taken to be as long as those of training.
        notes: Counts that are not those of the data here.
    """

    steps: int
    step_tokens: float
    tokens: int
    evaluated: float
    notes: tuple[str, ...]


def measure(
    cfg: DictConfig,
    module: STSModule,
    data: DataModule,
    prepare: Callable[[SentenceEncoder, bool], Prepare],
) -> Workload:
    """Count the steps and tokens of a run.

    Args:
        cfg: Configuration that `check_config` has resolved.
        module: Module around an encoder, whose tokenizer counts.
        data: Data module.
        prepare: Function from an encoder, and whether it trains, to its tokenisation.

    Raises:
        ConfigError: The data is not here, and no published count is known for it.
    """
    encoder = module.encoder
    encoder.train()
    rows, final = data.batch_size * encoder.tokenizer.rows_of(data.num_views), cfg.evaluation.final
    try:
        data.setup()
    except DataError as error:
        count = data.published_rows
        if count is None:
            raise ConfigError(f"the plan needs the data, as no published count is known: {error}") from error
        examples = min(count, cfg.data.get("limit") or count)
        batches = math.ceil(examples / data.batch_size)
        row = SENTENCE_TOKENS + encoder.tokenizer.added
        padded = kept = float(rows * row)
        pairs = DEV_PAIRS
        sentences = REPORT_SENTENCES if final else DEV_SENTENCES
        notes: tuple[str, ...] = (
            f"{examples:,} examples as published, of about {row} tokens; the data is not here",
        )
    else:
        data.connect(prepare(encoder, True), prepare(encoder, False), encoder.tokenizer)
        loader = data.train_dataloader()
        batches = len(loader)
        seen = [(module.chunks_of(batch)[0], batch) for batch in itertools.islice(loader, 3)]
        padded = sum(c["input_ids"].numel() for embedded, _ in seen for c in embedded.chunks) / len(seen)
        kept = sum(batch.rows.num_tokens for _, batch in seen) / len(seen)
        pairs = sum(map(len, texts_in(data.dev, ()))) // (2 if isinstance(data.dev, Ranking) else 1)
        tables = texts_in(data.dev, data.tests if final else ())
        columns = (values_of(table, name) for table in tables for name in table.column_names)
        sentences = len({text for column in columns for text in column if isinstance(text, str)})
        notes = ()
    steps = count_steps(cfg.trainer, batches)
    validations = steps.total_steps // steps.val_steps + 1  # once before the first step
    reports = 2 if cfg.evaluation.untuned else 1  # which embed each sentence once
    return Workload(
        steps.total_steps,
        padded,
        int(kept * steps.total_steps),
        kept / rows * (2 * pairs * validations + sentences * reports),
        notes,
    )
