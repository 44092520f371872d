"""Every loss under processes and micro batches together, against one process that embeds the whole batch."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import spawn

from sts_lightning.core.processes import Shard
from sts_lightning.data.collate import View, ViewCollator
from sts_lightning.losses import all_losses
from sts_lightning.losses.base import Loss
from sts_lightning.papers.auxiliary.masked_lm import MaskedLanguageModel
from sts_lightning.papers.auxiliary.momentum_queue import MomentumQueue
from sts_lightning.papers.auxiliary.second_encoder import SecondEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.auxiliary.base import AuxiliaryModel, Step
from sts_lightning.training.module import STSModule
from tests.support.loss_cases import further, make

SIZE, PROCESSES, MICRO = 7, 2, 4
TEXTS = [f"{word} {number} {'long ' * (number % 3)}" for number, word in enumerate("abcdefg" * 3)]
QUEUE = "infonce, queue"


class Stored(AuxiliaryModel):
    """What a teacher says about the whole batch."""

    def __init__(self, name: str, value: Tensor) -> None:
        super().__init__()
        self.provides, self.value = name, value

    def forward(self, step: Step) -> Tensor:
        return self.value


def auxiliary_of(loss: Loss, size: int) -> AuxiliaryModel | None:
    name = next(iter(loss.needs.required_inputs), None)
    if name == "second":
        return SecondEncoder()
    if name == "masked_lm":
        return MaskedLanguageModel(lower_layers=1, layers=1)
    return None if name is None else Stored(name, further(loss, SIZE, dimension=size)[name].float())


def gradients(row: str, shard: Shard, micro: int | None) -> dict[str, Tensor]:
    """The mean over processes, as data-parallel training takes it."""
    encoder = tiny_bert(dropout=0.0, pooling="cls", projection="train", max_length=32)
    with torch.no_grad():
        for weight in encoder.parameters():
            if weight.dim() == 2:  # at BERT's initial weights all cosines are equal but for rounding
                weight.mul_(10)
    loss = make(row.partition(",")[0], encoder.dimension).float()
    queue = MomentumQueue(size=4, momentum=0.9)
    auxiliary = queue if row == QUEUE else auxiliary_of(loss, encoder.dimension)
    if auxiliary is not None:
        auxiliary.connect(encoder)
    if auxiliary is queue:
        queue.push(torch.randn(4, encoder.dimension, generator=torch.Generator().manual_seed(0)))
    none: Any = None
    module = STSModule(encoder, loss, none, none, auxiliary=auxiliary, micro_batch_size=micro)
    views, label = max(loss.needs.views), loss.needs.labels[0]
    columns = [f"text{view}" for view in range(views)]
    labels = 3 if label == "class" else 6
    examples = [
        {name: TEXTS[view * SIZE + number] for view, name in enumerate(columns)} | {"label": number % labels}
        for number in range(SIZE)
    ]
    prepare = encoder.prepare(40, training=True)
    batch = ViewCollator([View(name) for name in columns], label, prepare, shard)(examples)
    batch = replace(batch, part="mse")  # of the loss that has parts
    step = module.step_of(batch, 0)
    embedded = module._gather(encoder.project(step.pooled), batch)
    extra = module.read_batch(batch)
    if auxiliary is not None:
        extra[auxiliary.provides] = auxiliary(step)
    torch.manual_seed(0)  # of losses that draw
    module._loss(embedded, batch.labels, extra).backward()
    result = {}
    for name, parameter in trained(module):
        grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        if shard.world_size > 1:
            distributed.all_reduce(grad)
        result[name] = grad / shard.world_size
    return result


def trained(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, value) for name, value in module.named_parameters() if value.requires_grad]


def work(process: int, port: int, folder: str) -> None:
    torch.set_num_threads(1)
    address = f"tcp://localhost:{port}"
    distributed.init_process_group("gloo", init_method=address, rank=process, world_size=PROCESSES)
    found = {row: gradients(row, Shard.current(), MICRO) for row in (*all_losses(), QUEUE)}
    if process == 0:
        torch.save(found, Path(folder) / "found.pt")
    distributed.destroy_process_group()


def test_processes_and_micro_batches_give_the_gradient_of_one_process(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    spawn(work, (port, str(tmp_path)), nprocs=PROCESSES)
    found = torch.load(tmp_path / "found.pt")
    assert found.keys() == {*all_losses(), QUEUE}
    for row, theirs in found.items():
        expected = gradients(row, Shard(), None)
        largest = max(float(grad.abs().max()) for grad in expected.values())
        assert largest > 0.1, row
        for name, grad in expected.items():
            apart = float((theirs[name] - grad).abs().max()) / largest
            assert apart <= 1e-5, f"{row}, {name}: {apart}"
