"""What the trace of a step on a GPU moves, against bytes by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from omegaconf import DictConfig

from sts_lightning.config.check import check_config
from sts_lightning.planning.estimate import Tracer
from sts_lightning.planning.gpus import Device
from sts_lightning.planning.meter import Meter

LAYERS, WIDTH, INNER = 2, 64, 128


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, torch.dtype]]:
    """Bytes that operations move, by their name and dtype."""
    counts: Counter[tuple[str, torch.dtype]] = Counter()
    dispatch = Meter.__torch_dispatch__

    def counting(meter: Meter, func: Any, *args: Any) -> Any:
        before = meter.costs.copy()
        out = dispatch(meter, func, *args)
        for cost, number in (meter.costs - before).items():
            counts[func.name(), cost.dtype] += number * cost.moved
        return out

    monkeypatch.setattr(Meter, "__torch_dispatch__", counting)
    return counts


def test_lora_drops_half_precision_with_masks_of_bytes(
    config: Callable[..., DictConfig], moved: Counter[tuple[str, torch.dtype]]
) -> None:
    shape = [
        f"model.layers={LAYERS}",
        f"model.hidden_size={WIDTH}",
        "model.quantization=4bit",
        "precision=auto",
        "model.dtype=bfloat16",
    ]
    cfg = check_config(config("model=tiny_mistral", "prompt=eol", "data=toy", "data.batch_size=4", *shape))
    _, tokens = Tracer(cfg, Device("test", 2**40, 1e12, 1e12, 1e12, "bf16-mixed")).full(None)

    inputs = 6 * WIDTH + INNER  # of q, k, v, o, gate and up; of down
    each = 2 + 2 + 1  # input and output in bfloat16, a mask of a byte
    assert moved["aten::native_dropout", torch.bfloat16] == 2 * LAYERS * tokens * inputs * each  # drawn again
    back = LAYERS * inputs - 3 * WIDTH  # the input of the first q, k and v needs no gradient
    assert moved["aten::native_dropout_backward", torch.bfloat16] == tokens * back * each
    names = {name for name, _ in moved}
    assert not names & {"aten::bernoulli_.float", "aten::dropout"}
    attention = {dtype for name, dtype in moved if "scaled_dot_product" in name}
    assert attention <= {torch.bfloat16}  # torch 2.8 computes grouped heads in steps
    assert all(dtype != torch.float32 for name, dtype in moved if "dropout" in name)


def test_lora_on_a_cpu_drops_as_many_elements_as_are_expected(
    config: Callable[..., DictConfig], moved: Counter[tuple[str, torch.dtype]]
) -> None:
    cfg = check_config(config("model=tiny_mistral", "prompt=eol", "data=toy", "data.batch_size=4"))
    Tracer(cfg, Device("this CPU", 2**40, precision="32-true", gpu=False)).full(None)
    names = {name for name, _ in moved}
    assert "aten::index_fill_.int_Scalar" in names
    assert not names & {"aten::native_dropout", "aten::bernoulli_.float"}
