"""Memory that runs out in a step: the step is repeated in smaller micro batches, by all processes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, multiprocessing
from torch.nn.parallel import DistributedDataParallel

from sts_lightning.core.processes import Shard
from sts_lightning.data.collate import Batch
from sts_lightning.losses.pearson import PearsonLoss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.module import STSModule

TEXTS = ["a b c", "d e", "f", "g h i j", "k l", "m n o", "p", "q r s t u"]


def limit_memory(monkeypatch: pytest.MonkeyPatch, encoder: type[SentenceEncoder], rows: float) -> None:
    """Let chunks with more padded tokens than so many of the longest rows exhaust the memory."""
    embed = encoder.embed_chunk

    def limited(self: SentenceEncoder, chunk: dict[str, Tensor], *rest: Any, **more: Any) -> Tensor:
        most = rows * (self.tokenizer.lengths.train + self.tokenizer.lengths.added)
        if chunk["input_ids"].numel() > most and torch.is_grad_enabled():
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return embed(self, chunk, *rest, **more)

    monkeypatch.setattr(encoder, "embed_chunk", limited)


def module_and_step(shard: Shard) -> tuple[STSModule, Any]:
    """A module whose weights do not depend on the process, and one step without an update of the weights."""
    unused: Any = None
    torch.manual_seed(0)
    module = STSModule(tiny_bert(dropout=0.0), PearsonLoss(), unused, unused).train()
    own = shard.slice_of(len(TEXTS))
    views = [TEXTS[own], TEXTS[::-1][own]]
    rows = module.encoder.prepare(10_000, training=True)(views, [None, None])
    batch = Batch(rows, 2, torch.linspace(0, 5, len(TEXTS)), len(TEXTS), shard)
    losses: list[float] = []

    def training_step() -> Tensor:
        loss = module.loss(module.embed_views(batch), batch.labels)
        losses.append(float(loss.detach()))
        return loss  # type: ignore[no-any-return]

    module.on_train_batch_start(batch, 0)
    return module, (training_step, losses)


def gradient(module: STSModule) -> Tensor:
    return torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])


def trainer(world_size: int, model: Any) -> Any:
    return SimpleNamespace(world_size=world_size, model=model, global_step=0)


class Wrapped(torch.nn.Module):
    """Calls a function as the forward pass of the module, as Lightning's strategy does."""

    def __init__(self, module: STSModule, forward: Any) -> None:
        super().__init__()
        self.module, self.function = module, forward

    def forward(self) -> Any:
        return self.function()


def process(rank: int, folder: Path, moment: str, queue: Any) -> None:
    """Take a step as one of two processes, in one of which memory runs out at a moment."""
    distributed.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=2)
    torch.set_num_threads(1)
    module, (forward, losses) = module_and_step(Shard(rank, 2))
    wrapped = DistributedDataParallel(Wrapped(module, forward))
    module._trainer = trainer(2, wrapped)
    optimizer = torch.optim.SGD(module.parameters(), 0.0)
    module._group = distributed.new_group(backend="gloo")
    embed, calls = module.encoder.embed_chunk, iter(range(100))

    def short(*args: Any, **more: Any) -> Tensor:
        vectors = embed(*args, **more)
        number = next(calls)
        if rank == 1 and number == 0 and moment == "forward":
            raise torch.OutOfMemoryError("CUDA out of memory.")
        if rank == 1 and number == 0 and moment == "backward":
            vectors.register_hook(fail)
        if rank == 1 and moment == "always":
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return vectors

    def fail(_: Tensor) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    module.encoder.embed_chunk = short  # type: ignore[method-assign]
    message = ""
    try:
        module.optimizer_step(0, 0, optimizer, lambda: wrapped().backward())
    except torch.OutOfMemoryError as error:
        message = str(error)
    found = None if message else gradient(module).numpy()
    queue.put((rank, losses, found, module.budget.tokens, message))
    distributed.barrier()
    distributed.destroy_process_group()


@pytest.mark.parametrize("moment", ["never", "forward", "backward", "always"])
def test_all_processes_repeat_the_step(moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss and gradient are those of one process with the whole batch and enough memory."""
    module, (forward, losses) = module_and_step(Shard())
    module._trainer = trainer(1, None)
    forward().backward()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=process, args=(r, tmp_path, moment, queue)) for r in range(2)]
    for worker in workers:
        worker.start()
    results = sorted((queue.get(timeout=40) for _ in workers), key=lambda found: found[0])
    for worker in workers:
        worker.join(40)
    budgets = {tokens for *_, tokens, _ in results}
    assert len(budgets) == 1
    assert (budgets == {None}) == (moment == "never")
    for rank, found, gradients, _, message in results:
        if moment == "always":
            assert ("another process" in message) == (rank == 0)
            continue
        assert found[-1] == pytest.approx(losses[0], abs=1e-6)
        torch.testing.assert_close(torch.from_numpy(gradients), gradient(module), atol=1e-5, rtol=1e-4)
