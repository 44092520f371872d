"""Trace of one training step on fake tensors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from sts_lightning.data.collate import Batch
from sts_lightning.models.compute.inference import usual_chunk_tokens
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.text.tokenizer import TokenizedBatch
from sts_lightning.planning.auxiliary import sketches, usual_values
from sts_lightning.planning.fake import (
    cpu_kernels,
    explaining_untraceable,
    fake_mode,
    gpu_kernels,
    make_fake,
    stored_tensors,
)
from sts_lightning.planning.meter import Cost, Meter, Purpose
from sts_lightning.training.auxiliary.base import Step
from sts_lightning.training.module import STSModule

AUTOCAST = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
"""dtype of matrix products under each mixed precision."""

ADAPTER_NAMES = ("lora_", "prompt_encoder", "prompt_embeddings")
"""Parts of the names of peft's weights."""


@dataclass(frozen=True)
class LossTrace:
    """What a loss takes.

    Attributes:
        above: Bytes for each purpose above those before the loss, without its vectors, at the moment of the
            highest sum.
        costs: Its operations, backward pass included.
    """

    above: Counter[Purpose]
    costs: Counter[Cost]


@dataclass(frozen=True)
class Trace:
    """A training step, after the first one.

    Attributes:
        peak: Bytes for each purpose at the moment of the highest sum.
        kept: Bytes that the graph of all chunks holds apart from those of the chunk that runs: before the
            backward pass reaches a chunk, or after it has passed it, whichever is more.
        forward: Operations of the encoder's forward pass, counted by their arithmetic.
        encoder: Operations of forward and backward pass.
        rest: Operations of the loss and the optimiser.
        loss: The loss alone, for other traces; None if they may differ in it.
    """

    peak: Counter[Purpose]
    kept: int
    forward: Counter[Cost]
    encoder: Counter[Cost]
    rest: Counter[Cost]
    loss: LossTrace | None = None


def trace_step(
    module: STSModule,
    batch: Batch[TokenizedBatch],
    precision: str,
    gpu: bool,
    clip: float | None,
    loss: LossTrace | None = None,
) -> Trace:
    """Run one step of a module without memory: forward, loss, backward, clipping, optimiser.

    The encoder and an auxiliary model are traced on fake tensors, for which any values and no
    memory are needed. The loss runs on real random vectors of the true shape, since it may branch on values.
    The module cannot train afterwards.

    Args:
        module: Module around an encoder with or without weights.
        batch: Rows to embed. The loss sees ``batch.size`` examples.
        precision: Precision of training, in Lightning's names.
        gpu: Whether to trace what CUDA's kernels keep, or those of a CPU.
        clip: Maximal gradient norm, None for no clipping.
        loss: The same loss on a batch of the same size, if it has been traced: it runs on real numbers, which
            may take longer than the rest of a trace.

    Raises:
        ConfigError: The model needs values of tensors in a way that a trace cannot follow.
    """
    with explaining_untraceable():
        return _Step(module, batch, precision, gpu, clip, loss).run()


@dataclass
class _Step:
    module: STSModule
    batch: Batch[TokenizedBatch]
    precision: str
    gpu: bool
    clip: float | None
    loss: LossTrace | None
    mode: FakeTensorMode = field(default_factory=fake_mode)
    meter: Meter = field(default_factory=Meter)

    def run(self) -> Trace:
        """Trace the parts of a step in the order of Lightning's loop."""
        module, meter = self.module.train(), self.meter
        rows, recompute = module.chunks_of(self.batch)
        rows = self._fake_rows(rows)
        self._place_weights()
        optimizer = module.make_optimizer(module)
        self._step_before(optimizer)
        self._take_costs()
        before = meter.now["activations"]
        with self._tracing("activations"), self._autocast():
            pooled = module.encoder(rows, recompute, project=False)
            vectors = module.encoder.project(pooled)
        forward = self._take_costs()
        real = self.batch.rows
        whole = _Rows(
            real.chunks, real.restore, real.num_tokens, real.baseline, real=real, fake=self._fake_rows
        )
        step = _TracedStep(module.encoder, replace(self.batch, rows=whole), rows, recompute, pooled)
        del pooled
        further = self._further(step)
        encoder = forward + self._take_costs()
        outputs, gradients = self._known_loss(vectors) or self._loss(vectors, further)
        del vectors, further
        waiting = meter.now["activations"] - before
        rest = self._take_costs()
        optimizer.zero_grad()  # Lightning frees the gradients of the step before only here
        hooks = [p.register_post_accumulate_grad_hook(self._mark_gradient) for p in self._trained()]
        with self._tracing("activations"):
            if outputs:  # the method of a tensor would hide functions from modes
                torch.autograd.backward(outputs, gradients)
        for hook in hooks:
            hook.remove()
        passed = meter.now["activations"] - before
        del outputs, gradients
        encoder.update(self._take_costs())
        if module.auxiliary is not None:
            with self._tracing("activations"), self._autocast():
                module.auxiliary.update(step)
        del step
        with self._tracing("optimiser"):
            if self.clip is not None:
                nn.utils.clip_grad_norm_(module.parameters(), self.clip)
            optimizer.step()
        rest.update(self._take_costs())
        return Trace(meter.peak, max(waiting, passed), forward, encoder, rest, self.loss)

    def _further(self, step: Step) -> dict[str, Tensor]:
        """Return what the auxiliary model gives the loss, as a fake tensor by the name of the argument."""
        auxiliary = self.module.auxiliary
        if auxiliary is None:
            return {}
        with self._tracing("activations"), self._autocast(), usual_values(auxiliary):
            return {auxiliary.provides: auxiliary(step)}

    def _trace_teacher(self, encoder: SentenceEncoder, sentences: Sequence[str]) -> None:
        """Trace the first chunk, which has the longest rows; the others cost as much for a token."""
        with _disable_current_modes():
            chunk_tokens = usual_chunk_tokens("cuda" if self.gpu else "cpu")
            rows = encoder.prepare(chunk_tokens, training=False)([sentences], [])
            first = self._fake_rows(TokenizedBatch(rows.chunks[:1], rows.restore, rows.num_tokens))
        before = self.meter.costs.copy()
        with torch.no_grad():
            encoder.embed_chunk(first.chunks[0])
        tokens = [chunk["input_ids"].numel() for chunk in rows.chunks]
        for cost, count in (self.meter.costs - before).items():
            self.meter.costs[cost] += math.ceil(count * (sum(tokens) / tokens[0] - 1))

    def _take_costs(self) -> Counter[Cost]:
        taken, self.meter.costs = self.meter.costs, Counter()
        return taken

    def _trained(self) -> Iterator[nn.Parameter]:
        return (parameter for parameter in self.module.parameters() if parameter.requires_grad)

    @contextmanager
    def _tracing(self, purpose: Purpose) -> Iterator[None]:
        kernels = gpu_kernels() if self.gpu else cpu_kernels()
        with self.mode, self.meter, kernels, self.meter.purpose(purpose):
            yield

    def _autocast(self) -> AbstractContextManager[object]:
        dtype = AUTOCAST.get(self.precision)
        return nullcontext() if dtype is None else torch.autocast("cpu", dtype)

    def _place_weights(self) -> None:
        module = self.module
        encoders: list[nn.Module | None] = [module.encoder, module.auxiliary]
        for sketch in sketches(module.auxiliary):
            sketch.trace = self._trace_teacher
            encoders.append(sketch.encoder)
        for encoder in filter(None, encoders):
            make_fake(encoder, self.mode)
            for name, tensor in stored_tensors(encoder):
                adapter = any(part in name for part in ADAPTER_NAMES)
                self.meter.add(tensor, "adapters" if adapter else "weights")
        for tensor in (*module.loss.parameters(), *module.loss.buffers()):
            self.meter.add(tensor, "weights")

    def _step_before(self, optimizer: torch.optim.Optimizer) -> None:
        """Make the optimiser's state and the gradients that the step before leaves."""
        with self._tracing("gradients"):
            for parameter in self._trained():
                parameter.grad = torch.zeros_like(parameter)
        with self._tracing("optimiser"):
            optimizer.step()
        self.meter.peak = self.meter.now.copy()

    def _known_loss(self, vectors: Tensor) -> tuple[list[Tensor], list[Tensor]] | None:
        """Count a loss that has been traced, and return as `_loss` does."""
        if self.loss is None or not vectors.requires_grad:
            return None
        self.meter.forget(vectors)
        self.meter.raise_peak(self.loss.above)
        self.meter.costs.update(self.loss.costs)
        with self.mode:
            gradient = torch.empty(vectors.shape)
        self.meter.add(gradient, "vectors")
        return [vectors], [gradient]

    def _loss(self, vectors: Tensor, further: dict[str, Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Run the loss on random tensors in place of those of the trace.

        Returns:
            The tensors of the trace that take a gradient, and their fake gradients.
        """
        batch, meter, generator = self.batch, self.meter, torch.Generator().manual_seed(0)
        meter.forget(vectors)  # of as many rows as are traced
        before, peak = meter.now.copy(), meter.peak
        meter.peak = before

        def real(old: Tensor, shape: Sequence[int]) -> Tensor:
            made = torch.randn(shape, generator=generator).requires_grad_(old.requires_grad)
            meter.replace(old, made, "vectors")
            return made

        views = real(vectors, (batch.num_views, batch.size, vectors.shape[-1])).requires_grad_()
        given = {name: real(value, value.shape) for name, value in further.items()}
        traced = [(vectors, views), *((further[name], value) for name, value in given.items())]
        given |= self.module.read_batch(batch)
        with meter, meter.purpose("vectors"):
            loss: Tensor = self.module.loss(views, batch.labels, **given)
            if self.module.regularizer is not None:
                loss = loss + self.module.regularizer(views)
            loss.backward()
        above = meter.peak.copy()
        above.subtract(before)
        meter.peak = max(peak, meter.peak, key=Counter.total)
        # Vectors of an auxiliary model may be others in another trace, and a head has gradients.
        if not further and not any(True for _ in self.module.loss.parameters()):
            self.loss = LossTrace(above, meter.costs.copy())
        taking = [(old, new) for old, new in traced if old.requires_grad]
        with self.mode:
            gradients = [torch.empty(old.shape) for old, _ in taking]
        for (_, new), gradient in zip(taking, gradients, strict=True):
            meter.replace(new.grad if new.grad is not None else new, gradient, "vectors")
        return [old for old, _ in taking], gradients

    def _mark_gradient(self, parameter: Tensor) -> None:
        if parameter.grad is not None:
            self.meter.add(parameter.grad, "gradients")

    def _fake_rows(self, rows: TokenizedBatch) -> TokenizedBatch:
        """Return rows as fake tensors, which the meter counts."""

        def fake(tensor: Tensor) -> Tensor:
            with self.mode:
                made = torch.empty(tensor.shape, dtype=tensor.dtype)
            self.meter.add(made, "vectors")
            return made

        chunks = [{name: fake(values) for name, values in chunk.items()} for chunk in rows.chunks]
        baseline = None if rows.baseline is None else fake(rows.baseline)
        return _Rows(chunks, fake(rows.restore), rows.num_tokens, baseline, real=rows, fake=self._fake_rows)


@dataclass
class _Rows(TokenizedBatch):
    """Fake rows, whose first sentences are found among the real ones."""

    real: TokenizedBatch = field(kw_only=True)
    fake: Callable[[TokenizedBatch], TokenizedBatch] = field(kw_only=True)

    def head(self, count: int) -> TokenizedBatch:
        """Return the first sentences as fake tensors."""
        with _disable_current_modes():
            return self.fake(self.real.head(count))


class _TracedStep(Step):
    """A step on one process, of which a part of the rows may be traced."""

    def gather(self, rows: Tensor) -> Tensor:
        """Return tensors of the traced rows as those of the whole batch, (K, B, D)."""
        count = self.batch.size
        return rows if rows.shape[1] == count else rows[:, :1].expand(-1, count, -1)

    def total(self, rows: Tensor) -> Tensor:
        """Add up summands of the traced rows."""
        return rows.sum(dim=(0, 1))
