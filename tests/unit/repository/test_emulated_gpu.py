"""The emulated GPU behaves as PyTorch documents of a CUDA device."""

from __future__ import annotations

import copy
import io
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint

from tests.support.emulated_gpu import EmulatedGPU, emulated_gpu


@pytest.fixture
def gpu() -> Iterator[EmulatedGPU]:
    with emulated_gpu() as device:
        device.recording = True
        yield device


def test_a_tensor_claims_to_be_on_cuda_and_computes(gpu: EmulatedGPU) -> None:
    there = torch.tensor([1.0, 2.0, 3.0], device="cuda")
    for tensor in (
        there,
        there[1:] * 2,
        torch.zeros_like(there),
        torch.arange(3, device=there.device),
        torch.ones(3).to(there),
        torch.ones(3).cuda(),
        torch.ones(3).to("cuda", torch.float64),
        torch.ones(3, dtype=torch.int64).type_as(there),
    ):
        assert tensor.is_cuda
        assert tensor.device == torch.device("cuda", 0)
    assert (there * 2 + 1).cpu().tolist() == [3, 5, 7]
    assert torch.ones(3).to("cuda", torch.float64).dtype is torch.float64
    assert there.to("cuda") is there
    assert there.to(torch.float32) is there
    assert torch.empty(2, device="meta").is_meta
    with pytest.raises(TypeError, match="can't convert cuda:0"):
        np.asarray(there)


def test_gradients_equal_those_of_the_cpu(gpu: EmulatedGPU) -> None:
    torch.manual_seed(0)
    here = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 1))
    there = copy.deepcopy(here).to("cuda")
    rows = torch.randn(5, 4)
    for module, given in ((here, rows), (there, rows.to("cuda"))):
        checkpoint(module, given, use_reentrant=False).square().mean().backward()
        torch.optim.AdamW(module.parameters(), fused=True).step()
    for one, two in zip(here.parameters(), there.parameters(), strict=True):
        assert two.is_cuda
        assert two.grad is not None
        assert two.grad.is_cuda
        torch.testing.assert_close(two.grad.cpu(), one.grad)
        torch.testing.assert_close(two.cpu(), one)


def test_other_dtypes_places_and_files(gpu: EmulatedGPU) -> None:
    layer = nn.Linear(2, 2).to("cuda")
    weight = layer.weight.detach().cpu()
    assert layer.to(torch.bfloat16)(torch.ones(1, 2, device="cuda", dtype=torch.bfloat16)).shape == (1, 2)
    layer.float().weight.data = weight.to("cuda") + 1
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)["weight"]
    torch.testing.assert_close(loaded, weight + 1)
    assert not loaded.is_cuda
    assert not any(parameter.is_cuda for parameter in copy.deepcopy(layer).cpu().parameters())


@pytest.mark.parametrize(
    "mix",
    [
        lambda there, here: there + here,
        lambda there, here: here.add_(there),
        lambda there, here: torch.cat([there, here]),
        lambda there, here: F.linear(there, here[None]),
        lambda there, here: here[there.long()],
        lambda there, here: torch.zeros(()).add_(there.sum()),
    ],
)
def test_devices_do_not_mix(mix: Callable[[Tensor, Tensor], Tensor], gpu: EmulatedGPU) -> None:
    with pytest.raises(RuntimeError, match="same device"):
        mix(torch.ones(3, device="cuda"), torch.ones(3))


def test_a_number_on_the_host_mixes(gpu: EmulatedGPU) -> None:
    assert (torch.ones(3, device="cuda") * torch.tensor(2.0)).is_cuda
    assert not gpu.synchronisations[1:]


REJECTED: list[Callable[[Tensor], Any]] = [
    lambda x: x.cumsum(0),
    lambda x: x.kthvalue(2),
    lambda x: x.median(0),
    lambda x: x.histc(3),
    lambda x: x.put_(torch.tensor([0], device="cuda"), x[:1].clone()),
    lambda x: torch.bincount(torch.arange(4, device="cuda"), x),
    lambda x: F.nll_loss(x.reshape(1, 2, 2, 1), torch.zeros(1, 2, 1, device="cuda", dtype=torch.int64)),
]


@pytest.mark.parametrize("operation", REJECTED)
def test_strict_determinism_rejects_what_cuda_does(
    operation: Callable[[Tensor], Any], gpu: EmulatedGPU
) -> None:
    x = torch.ones(4, device="cuda")
    torch.use_deterministic_algorithms(False)
    operation(x)
    torch.use_deterministic_algorithms(True)
    x.long().cumsum(0)
    with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
        operation(x)
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match="does not have a deterministic implementation"):
        operation(x)


WAITS: list[tuple[str, Callable[[Tensor], Any]]] = [
    ("_local_scalar_dense", lambda x: x[0].item()),
    ("_local_scalar_dense", lambda x: bool(x.all())),
    ("_local_scalar_dense", lambda x: f"{x[0]:.2f}"),
    ("nonzero", lambda x: x.nonzero()),
    ("nonzero", lambda x: torch.where(x > 0)),
    ("equal", lambda x: torch.equal(x, x)),
    ("a boolean index", lambda x: x[x > 0]),
    ("an index on the host", lambda x: x[torch.tensor([0, 1])]),
    ("a copy to the host", lambda x: x.cpu()),
    ("a copy to the host", lambda x: x.tolist()),
    ("a copy to the host", lambda x: torch.zeros(3).copy_(x, non_blocking=True)),  # not to pinned memory
    ("a copy to the device", lambda x: torch.tensor(1.0, device="cuda")),
    ("a copy to the device", lambda x: torch.as_tensor(np.ones(3), device="cuda")),
    ("a copy to the device", lambda x: x.copy_(torch.ones(3))),
    ("_linalg_eigh", lambda x: torch.linalg.eigvalsh(torch.eye(3, device="cuda"))),
    ("the device", lambda x: torch.cuda.synchronize()),
]


@pytest.mark.parametrize(("reason", "operation"), WAITS)
def test_where_the_host_waits_is_noted(
    reason: str, operation: Callable[[Tensor], Any], gpu: EmulatedGPU
) -> None:
    x = torch.ones(3).to("cuda", non_blocking=True)
    assert gpu.synchronisations == []
    operation(x)
    assert len(gpu.synchronisations) == 1, gpu.synchronisations
    assert gpu.synchronisations[0].startswith(f"{reason}: tests/unit/repository/test_emulated_gpu.py:")


def test_what_stays_on_the_device_does_not_wait(gpu: EmulatedGPU) -> None:
    x = torch.arange(3.0).to("cuda", non_blocking=True)
    x[x > 0] = 1.0
    x[torch.zeros_like(x, dtype=torch.int64)].sum().clone()
    torch.where(x > 0, x, 0.0).masked_fill(x > 1, 2.0)
    assert gpu.synchronisations == []


@pytest.mark.parametrize("into", ["to", "copy_"])
def test_a_copy_that_does_not_block_arrives_with_its_event(into: str, gpu: EmulatedGPU) -> None:
    x = torch.ones(3).to("cuda", non_blocking=True)
    if into == "to":
        here = x.to("cpu", non_blocking=True)
    else:
        here = torch.empty(3, pin_memory=True).copy_(x, non_blocking=True)
    event = torch.cuda.Event()
    event.record()
    assert here.isnan().all()
    assert not event.query()
    assert here.isnan().all()
    assert event.query()
    assert here.tolist() == [1, 1, 1]
    assert gpu.synchronisations == []
    later = (x > 0).to("cpu", non_blocking=True)
    assert not later.any()
    event.record()
    event.synchronize()
    assert later.all()
    assert len(gpu.synchronisations) == 1


def test_the_device_has_random_numbers_of_its_own(gpu: EmulatedGPU) -> None:
    x = torch.ones(50, device="cuda")
    torch.manual_seed(0)
    first, host = F.dropout(x).cpu(), torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(torch.rand(1), host)
    assert torch.equal(F.dropout(x).cpu(), first)
    state = torch.cuda.get_rng_state()
    second = F.dropout(x).cpu()
    assert not torch.equal(first, second)
    torch.set_rng_state(torch.get_rng_state())
    torch.cuda.set_rng_state(state)
    assert torch.equal(F.dropout(x).cpu(), second)


def test_memory_is_counted_and_runs_out() -> None:
    with emulated_gpu(total_memory=4096) as gpu:
        x = torch.zeros(512, device="cuda")
        view = x[:4]
        assert torch.cuda.memory_allocated() == 2048
        assert torch.cuda.mem_get_info() == (2048, 4096)
        with pytest.raises(torch.OutOfMemoryError):
            torch.cat([x, x])
        x.add(1)
        assert torch.cuda.max_memory_allocated() == 4096
        del x, view
        assert gpu.used == 0
        torch.cuda.reset_peak_memory_stats()
        assert torch.cuda.max_memory_allocated() == 0


class OnCUDA(Tensor):
    """A tensor of zeros with CUDA's dispatch keys, which PyTorch's own autocast decides by."""

    @staticmethod
    def __new__(cls, like: Tensor) -> OnCUDA:
        made: OnCUDA = Tensor._make_wrapper_subclass(
            cls, like.size(), strides=like.stride(), dtype=like.dtype, device=torch.device("cuda:0")
        )
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        def on_cpu(x: Any) -> Any:
            if isinstance(x, OnCUDA):
                return torch.zeros(1, dtype=x.dtype).as_strided(x.shape, [0] * x.dim())
            return torch.device("cpu") if isinstance(x, torch.device) else x

        given, named = tree_map(on_cpu, (args, kwargs or {}))
        out = 0 if func.name() == "aten::_fused_sdp_choice" else func(*given, **named)
        return tree_map(lambda x: OnCUDA(x) if isinstance(x, Tensor) else x, out)


@contextmanager
def autocast() -> Iterator[None]:
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    torch.set_autocast_cache_enabled(False)
    with torch.no_grad():
        yield
    torch.clear_autocast_cache()
    torch.set_autocast_cache_enabled(True)
    torch.set_autocast_dtype("cuda", torch.float16)
    torch.set_autocast_enabled("cuda", False)


CASTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "linear": F.linear,
    "matmul": operator.matmul,
    "bmm": lambda x, y: torch.bmm(x.unsqueeze(0), y.unsqueeze(0)),
    "addmm": lambda x, y: torch.addmm(x, x, y),
    "einsum": lambda x, y: torch.einsum("ij,kj->ik", x, y),
    "attention": lambda x, y: F.scaled_dot_product_attention(x.unsqueeze(0), y.unsqueeze(0), x.unsqueeze(0)),
    "layer_norm": lambda x, y: F.layer_norm(x, (4,)),
    "softmax": lambda x, y: F.softmax(x, -1),
    "softmax of a method": lambda x, y: x.softmax(-1),
    "log_softmax": lambda x, y: F.log_softmax(x, -1),
    "logsumexp": lambda x, y: torch.logsumexp(x, -1),
    "norm": lambda x, y: x.norm(dim=-1),
    "vector_norm": lambda x, y: torch.linalg.vector_norm(x, dim=-1),
    "normalize": lambda x, y: F.normalize(x, dim=-1),
    "mse": F.mse_loss,
    "pow": lambda x, y: x**2,
    "square": lambda x, y: x.square(),
    "exp": lambda x, y: x.exp(),
    "rsqrt": lambda x, y: x.rsqrt(),
    "sum": lambda x, y: x.sum(),
    "mean": lambda x, y: x.mean(),
    "add": operator.add,
    "mul": operator.mul,
    "cat": lambda x, y: torch.cat([x, y]),
    "stack": lambda x, y: torch.stack([x, y]),
    "gelu": lambda x, y: F.gelu(x),
    "silu": lambda x, y: F.silu(x),
    "tanh": lambda x, y: x.tanh(),
}


@pytest.mark.parametrize("name", CASTS)
@pytest.mark.parametrize("second", [torch.float32, torch.bfloat16])
def test_autocast_casts_as_pytorch_would(name: str, second: torch.dtype) -> None:
    if name == "attention" and torch.version.cuda is not None:
        pytest.skip("a build for CUDA asks the driver which kernel to take")
    rows = (torch.zeros(4, 4, dtype=torch.bfloat16), torch.zeros(4, 4, dtype=second))
    with autocast():
        expected = CASTS[name](*map(OnCUDA, rows)).dtype
    with emulated_gpu(), autocast():
        assert CASTS[name](*(x.to("cuda") for x in rows)).dtype == expected


def test_everything_is_undone() -> None:
    names = ("is_available", "Event", "device_count", "get_rng_state", "_lazy_init")
    before = [getattr(torch.cuda, name) for name in names]
    strict = torch.are_deterministic_algorithms_enabled()
    with pytest.raises(ValueError, match="inside"), emulated_gpu():
        torch.use_deterministic_algorithms(not strict)
        left = torch.ones(2, device="cuda")
        raise ValueError("inside")
    assert [getattr(torch.cuda, name) for name in names] == before
    assert not torch.cuda.is_available()
    assert torch.are_deterministic_algorithms_enabled() == strict
    with torch.inference_mode():
        assert torch.ones(2).is_inference()
    with pytest.raises(AssertionError, match="after its end"):
        left.add(1)
    with pytest.raises((AssertionError, RuntimeError)):
        torch.ones(2, device="cuda")
