"""Trace of one training step on fake tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from sts_lightning.data.collate import Batch
from sts_lightning.models.tokenized_batch import TokenizedBatch
from sts_lightning.planning.fake import fake_mode, make_fake, stored_tensors
from sts_lightning.planning.kernels import gpu_kernels, masks_of_real_rows
from sts_lightning.planning.meter import Cost, Kind, Meter
from sts_lightning.training.module import STSModule

AUTOCAST = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
"""dtype of matrix products under each mixed precision."""

ADAPTER_NAMES = ("lora_", "prompt_encoder", "prompt_embeddings", "ia3_")
"""Parts of the names of peft's weights."""


@dataclass(frozen=True)
class Trace:
    """A training step, after the first one.

    Attributes:
        peak: Bytes of each kind at the moment of the highest sum.
        random: Bytes of the random generator's states that are kept for the backward pass.
        forward: Operations of the encoder's forward pass, counted by their arithmetic.
        encoder: Operations of forward and backward pass.
        rest: Operations of the loss and the optimiser.
    """

    peak: Counter[Kind]
    random: int
    forward: Counter[Cost]
    encoder: Counter[Cost]
    rest: Counter[Cost]


def trace_step(
    module: STSModule, batch: Batch[TokenizedBatch], precision: str, gpu: bool, clip: float | None
) -> Trace:
    """Run one step of a module without memory: forward, loss, backward, clipping, optimiser.

    The encoder, and a momentum copy of it, are traced on fake tensors, for which any values and no memory
    are needed. The loss runs on real random vectors of the true shape, since it may branch on values. The
    module cannot train afterwards.

    Args:
        module: Module around an encoder with or without weights.
        batch: Rows to embed. The loss sees ``batch.size`` examples.
        precision: Precision of training, in Lightning's names.
        gpu: Whether to trace what CUDA's kernels keep, or those of a CPU.
        clip: Maximal gradient norm, None for no clipping.
    """
    return _Step(module, batch, precision, gpu, clip).run()


class _Step:
    def __init__(
        self,
        module: STSModule,
        batch: Batch[TokenizedBatch],
        precision: str,
        gpu: bool,
        clip: float | None,
    ) -> None:
        self.module = module.train()
        self.batch = batch
        self.precision = precision
        self.gpu = gpu
        self.clip = clip
        self.mode = fake_mode()
        self.meter = Meter()

    def run(self) -> Trace:
        """Trace the parts of a step in the order of Lightning's loop."""
        module, meter = self.module, self.meter
        rows, recompute = module.chunks_of(self.batch)
        head = None
        if module.queue is not None:
            head = self._fake_rows(self.batch.rows.head(self.batch.size))
        rows = self._fake_rows(rows)
        self._place_weights()
        optimizer = module.make_optimizer(module)
        self._step_before(optimizer)
        self._take_costs()
        with self._tracing("activations"), self._autocast():
            vectors: Tensor = module.encoder(rows, recompute)
        forward, random = self._take_costs(), meter.random_bytes
        gradient = self._loss(vectors)
        if module.queue is not None and head is not None:
            with self._tracing("activations"), self._autocast():
                module.queue.follow(module.encoder)
                module.queue.embed(head)
        optimizer.zero_grad()  # Lightning frees the gradients of the step before only here
        hooks = [p.register_post_accumulate_grad_hook(self._mark_gradient) for p in self._trained()]
        rest, encoder = self._take_costs(), forward.copy()
        if vectors.requires_grad:
            with self._tracing("activations"):
                torch.autograd.backward(vectors, gradient)  # the method would hide functions from modes
        for hook in hooks:
            hook.remove()
        del vectors, gradient
        encoder.update(self._take_costs())
        self._finish(optimizer)
        rest.update(self._take_costs())
        return Trace(meter.peak, random, forward, encoder, rest)

    def _take_costs(self) -> Counter[Cost]:
        taken, self.meter.costs = self.meter.costs, Counter()
        return taken

    def _trained(self) -> Iterator[nn.Parameter]:
        return (parameter for parameter in self.module.parameters() if parameter.requires_grad)

    @contextmanager
    def _tracing(self, kind: Kind) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(self.mode)
            stack.enter_context(self.meter)
            stack.enter_context(masks_of_real_rows())
            if self.gpu:
                stack.enter_context(gpu_kernels())
            else:
                stack.enter_context(self.meter.counting_random_states())
            stack.enter_context(self.meter.kind(kind))
            yield

    def _autocast(self) -> AbstractContextManager[object]:
        dtype = AUTOCAST.get(self.precision)
        return nullcontext() if dtype is None else torch.autocast("cpu", dtype)

    def _place_weights(self) -> None:
        encoders = [self.module.encoder]
        if self.module.queue is not None:
            encoders.append(self.module.queue.encoder_copy)
        for encoder in encoders:
            make_fake(encoder, self.mode)
            for name, tensor in stored_tensors(encoder):
                adapter = any(part in name for part in ADAPTER_NAMES)
                self.meter.add(tensor, "adapters" if adapter else "weights")
        for _, tensor in (*self.module.loss.named_parameters(), *self.module.loss.named_buffers()):
            self.meter.add(tensor, "weights")
        if self.module.queue is not None:
            self.meter.add(self.module.queue.vectors, "vectors")

    def _step_before(self, optimizer: torch.optim.Optimizer) -> None:
        """Make the optimiser's state and the gradients that the step before leaves."""
        with self._tracing("gradients"):
            for parameter in self._trained():
                parameter.grad = torch.zeros_like(parameter)
        with self._tracing("optimiser"):
            optimizer.step()
        self.meter.peak = self.meter.now.copy()

    def _loss(self, vectors: Tensor) -> Tensor:
        """Run the loss on random vectors in place of those of the trace; return a fake gradient."""
        batch, meter = self.batch, self.meter
        shape = (batch.num_views, batch.size, vectors.shape[-1])
        real = torch.randn(shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
        meter.replace(vectors, real, "vectors")
        negatives = {}
        if self.module.queue is not None:
            self.module.queue.filled.fill_(self.module.queue.size)
            negatives["negatives"] = self.module.queue.negatives()
        with meter, meter.kind("vectors"):
            loss: Tensor = self.module.loss(real, batch.labels, **negatives)
            if self.module.regularizer is not None:
                loss = loss + self.module.regularizer(real)
            loss.backward()
        with self.mode:
            gradient = torch.empty(vectors.shape)
        meter.replace(real.grad if real.grad is not None else real, gradient, "vectors")
        return gradient

    def _mark_gradient(self, parameter: Tensor) -> None:
        if parameter.grad is not None:
            self.meter.add(parameter.grad, "gradients")

    def _finish(self, optimizer: torch.optim.Optimizer) -> None:
        with self._tracing("optimiser"):
            if self.clip is not None:
                nn.utils.clip_grad_norm_(self.module.parameters(), self.clip)
            optimizer.step()

    def _fake_rows(self, rows: TokenizedBatch) -> TokenizedBatch:
        """Return rows as fake tensors, which the meter counts."""

        def fake(tensor: Tensor) -> Tensor:
            made = _fake(tensor, self.mode)
            self.meter.add(made, "vectors")
            return made

        chunks = [{name: fake(values) for name, values in chunk.items()} for chunk in rows.chunks]
        baseline = None if rows.baseline is None else fake(rows.baseline)
        return TokenizedBatch(chunks, fake(rows.restore), rows.num_tokens, baseline)


def _fake(tensor: Tensor, mode: FakeTensorMode) -> Tensor:
    with mode:
        return torch.empty(tensor.shape, dtype=tensor.dtype)
