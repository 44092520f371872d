"""An emulated CUDA device: tensors that claim ``cuda:0``, and hold their data in the memory of the CPU."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import warnings
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

CUDA = torch.device("cuda", 0)
CPU = torch.device("cpu")
GRAIN = 512
ROOT = Path(__file__).resolve().parents[2]

REJECTED = (
    "aten::put",
    "aten::histc",
    "aten::kthvalue",
    "aten::median.dim",
    "aten::nll_loss2d",
    "aten::_ctc_loss_backward",
    "aten::max_unpool",
    "aten::reflection_pad",
    "aten::replication_pad",
    "aten::grid_sampler",
    "aten::upsample",
    "aten::avg_pool",
    "aten::_adaptive_avg_pool",
    "aten::adaptive_max_pool",
)
"""Beginnings of the names, after the list in the documentation of torch.use_deterministic_algorithms."""

WAITING = {
    "aten::_local_scalar_dense",
    "aten::equal",
    "aten::nonzero",
    "aten::masked_select",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::unique_consecutive",
    "aten::bincount",
    "aten::repeat_interleave",
    "aten::_linalg_eigh",
    "aten::_linalg_svd",
}
"""Operations whose result, or its shape, is needed on the host."""

TO_HOST = {"aten::_local_scalar_dense", "aten::equal"}
COPIES = {"aten::copy_", "aten::_to_copy", "aten::_foreach_copy_"}
INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}

# After "CUDA Ops that can autocast to float16", "to float32" and "to the widest input type" in PyTorch's page
# on torch.amp, by the names of the functions that Python calls, also of those that consist of such.
LOW = """
__matmul__ __rmatmul__ addbmm addmm addmv baddbmm bmm chain_matmul conv1d conv2d einsum linear matmul mm mv
prelu scaled_dot_product_attention
"""
FLOAT32 = """
__pow__ __rpow__ acos asin cdist cosh cosine_embedding_loss cosine_similarity cross_entropy cumprod cumsum
dist erfinv exp expm1 group_norm kl_div l1_loss layer_norm linalg_matrix_norm linalg_vector_norm log log10
log1p log2 log_softmax logsumexp margin_ranking_loss mse_loss nll_loss norm normalize pow prod reciprocal
rsqrt sinh smooth_l1_loss softmax softmin softplus square sum tan
"""
WIDEST = "addcdiv addcmul bilinear cat cross dot index_put scatter_add stack"
CASTS = {name: kind for kind, names in enumerate((LOW, FLOAT32, WIDEST)) for name in names.split()}


def is_rejected(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Return whether CUDA has no deterministic form of an operation with these arguments."""
    name: str = func.name()
    if name.startswith(("aten::cumsum", "aten::cumprod")):
        return bool((kwargs.get("dtype") or args[0].dtype).is_floating_point)
    if name.startswith("aten::bincount"):
        return len(args) > 1 and args[1] is not None
    return name.startswith(REJECTED)


class GPUTensor(Tensor):
    """A tensor that claims ``cuda:0``; C++ sees the device ``meta``."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> GPUTensor:
        made: GPUTensor = Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device("meta"),
        )
        made.held = held
        if Operations.entered is not None:
            Operations.entered.gpu.allocates(held)
        return made

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Move and cast above autograd, as `Tensor.to` and autocast would on CUDA."""
        func, args, kwargs = _resolved(func, args, kwargs or {})
        if torch.is_autocast_enabled("cuda"):
            args, kwargs = _autocast(getattr(func, "__name__", ""), args, kwargs)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # as Tensor declares its disabled one
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        assert Operations.entered is not None, "a tensor of the emulated GPU is used after its end"
        return Operations.entered.run(func, args, kwargs or {})

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return CUDA

    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)
    is_meta = property(lambda self: False)

    def get_device(self) -> int:
        return 0

    @property
    def data(self) -> Tensor:
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        assert isinstance(value, GPUTensor)
        _base_data.__set__(self, value)
        self.held = value.held

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.held.untyped_storage()

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        if not force:
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")
        return self.detach().cpu().numpy()

    def __array__(self, dtype: Any = None) -> Any:
        return self.numpy()

    def __repr__(self) -> str:  # type: ignore[override]
        return f"GPUTensor({self.held!r})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.dim() == 0 else repr(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) not in memo:
            copied = self.detach().clone()
            parameter = isinstance(self, nn.Parameter)
            memo[id(self)] = (
                nn.Parameter(copied, self.requires_grad)
                if parameter
                else copied.requires_grad_(self.requires_grad)
            )
        made: Tensor = memo[id(self)]
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Save the data as those of a CPU tensor: `torch.load` gives that, whatever its ``map_location``."""
        return self.detach().cpu().__reduce_ex__(protocol)


_base_data: Any = Tensor.data


class Operations(TorchDispatchMode):
    """Runs operations on emulated tensors as CUDA would, with the kernels of the CPU."""

    entered: Operations | None = None

    def __init__(self, gpu: EmulatedGPU, functions: Functions) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.gpu = gpu
        self.functions = functions

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self.run(func, args, kwargs or {})

    def run(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        leaves = tree_leaves((args, kwargs))
        ours = [leaf for leaf in leaves if isinstance(leaf, GPUTensor)]
        plain = [leaf for leaf in leaves if isinstance(leaf, Tensor) and not isinstance(leaf, GPUTensor)]
        device = kwargs.get("device")
        name: str = func.name().partition(".")[0]
        if device is not None and device.type == "meta" and (ours or not self.functions.meta):
            device = CUDA  # C++ asks for the device of a tensor that it believes to be there
        if name in {"aten::is_pinned", "aten::_pin_memory"} or kwargs.get("pin_memory"):
            return self._pinned(func, args, kwargs)
        if not ours and (device is None or device.type != "cuda"):
            return func(*args, **kwargs)
        there = CPU if name in TO_HOST else CUDA if device is None else device
        if name in COPIES:
            return self._copy(func, name, args, kwargs, there)
        self._check(func, name, args, kwargs, ours, plain)
        if name == "aten::_fused_sdp_choice":
            return 0  # attention as products and a softmax, of which each is an operation
        out = self._compute(func, args, kwargs, random=there.type == "cuda")
        return _outputs(func, args, kwargs, out, wrap=there.type == "cuda")

    def _check(
        self,
        func: Any,
        name: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        ours: list[GPUTensor],
        plain: list[Tensor],
    ) -> None:
        """Raise what CUDA would raise, and note where it would wait."""
        if not ours:
            return
        indices = tree_leaves(args[1]) if name in INDEXING else []
        of_host = [tensor for tensor in plain if any(tensor is index for index in indices)]
        wrong = [tensor for tensor in plain if tensor.dim() > 0 and not any(tensor is x for x in of_host)]
        if wrong or (plain and not isinstance(args[0], GPUTensor | list | tuple) and _changes_first(func)):
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but {func} found cuda:0 "
                f"{[tuple(tensor.shape) for tensor in ours]} and cpu {[tuple(x.shape) for x in plain]}"
            )
        if of_host:
            self.gpu.waits("an index on the host")
        if name in WAITING and not (name == "aten::repeat_interleave" and "output_size" in args):
            self.gpu.waits(name.removeprefix("aten::"))
        put = name in INDEXING and name != "aten::index"
        filled = put and args[2].numel() == 1 and args[2].device == CPU  # a masked_fill in its place
        if not filled and any(
            isinstance(i, Tensor) and i.dtype in (torch.bool, torch.uint8) for i in indices
        ):
            self.gpu.waits("a boolean index")
        if is_rejected(func, args, kwargs) and torch.are_deterministic_algorithms_enabled():
            message = (
                f"{func.name()} does not have a deterministic implementation, but you set "
                "'torch.use_deterministic_algorithms(True)'."
            )
            if not torch.is_deterministic_algorithms_warn_only_enabled():
                raise RuntimeError(message)
            warnings.warn(message, stacklevel=2)

    def _copy(self, func: Any, name: str, args: Sequence[Any], kwargs: dict[str, Any], there: Any) -> Any:
        """Copy on the device, to it or from it."""
        if name == "aten::_to_copy":
            moves = {(args[0].device.type, there.type)}  # to the host into new memory, which PyTorch pins
            blocking = not kwargs.get("non_blocking", False)
        else:
            to, of = (x if isinstance(x, list) else [x] for x in args[:2])
            moves = {(source.device.type, target.device.type) for target, source in zip(to, of, strict=True)}
            blocking = not (args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
            blocking |= ("cuda", "cpu") in moves and not all(map(self.gpu.is_pinned, to))
        down, up = ("cuda", "cpu") in moves, ("cpu", "cuda") in moves
        if (down or up) and blocking:
            self.gpu.waits("a copy to the host" if down else "a copy to the device")
        out = self._compute(func, args, kwargs, random=False)
        if down and not blocking:
            self.gpu.arrives_later(args[0] if name == "aten::copy_" else out)
        return _outputs(func, args, kwargs, out, wrap=there.type == "cuda")

    def _compute(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], random: bool) -> Any:
        on_cpu = {
            k: CPU if isinstance(v, torch.device) else v for k, v in kwargs.items() if k != "non_blocking"
        }
        args, on_cpu = tree_map(_held, (args, on_cpu))
        if random and torch.Tag.nondeterministic_seeded in func.tags:
            with self.gpu.own_random_state():
                return func(*args, **on_cpu)
        return func(*args, **on_cpu)

    def _pinned(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Pin the host's memory, which a torch without CUDA rejects."""
        name = func.name()
        if name == "aten::is_pinned":
            return self.gpu.is_pinned(args[0])
        made = (
            args[0].clone() if name == "aten::_pin_memory" else func(*args, **{**kwargs, "pin_memory": False})
        )
        self.gpu.pin(made)
        return made


class Functions(TorchFunctionMode):
    """Functions without an emulated tensor among their arguments, which may make one.

    Attributes:
        meta: Whether the device ``meta`` was asked for in Python, so that it is not the emulated one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.meta = False

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        func, args, kwargs = _resolved(func, args, kwargs or {})
        outer = self.meta
        self.meta = any(_is_meta(leaf) for leaf in (*args, *kwargs.values()))
        try:
            return func(*args, **kwargs)
        finally:
            self.meta = outer


def _resolved(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Any, Sequence[Any], dict[str, Any]]:
    """Name the devices of conversions, which C++ does not know."""
    if func is torch.device and args and isinstance(args[0], int):
        args = (_device(args[0]),)
    elif func is Tensor.cuda:
        func, args = Tensor.to, (args[0], CUDA)
    elif func is Tensor.type_as:
        func = Tensor.to
    if func is Tensor.to:
        args, kwargs = _destination(args, dict(kwargs))
    elif func is Tensor.__setitem__ and isinstance(args[2], bool | int | float):
        args = (*args[:2], torch.tensor(args[2], dtype=args[0].dtype))  # C++ does so on CUDA alone
    elif kwargs.get("device") is not None and _device(kwargs["device"]).type == "cuda":
        kwargs = {**kwargs, "device": CUDA}  # PyTorch would ask the driver for the current one
    return func, args, kwargs


def _device(named: Any) -> torch.device:
    """Return a device; a torch without CUDA knows none for a number."""
    return torch.device("cuda", named) if isinstance(named, int) else torch.device(named)


def _is_meta(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not isinstance(value, GPUTensor) and value.is_meta
    return str(value) == "meta" if isinstance(value, str | torch.device) else False


def _destination(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """Name the device that `Tensor.to` leads to; a tensor that is there already is converted at most."""
    tensor, *rest = args
    other = kwargs.pop("other", None)
    if rest and isinstance(rest[0], Tensor):
        other, *rest = rest
    if other is not None:
        rest = [other.device, other.dtype, *rest]
    if rest and not isinstance(rest[0], torch.dtype):
        kwargs["device"], *rest = rest
    if rest:
        kwargs["dtype"], *rest = rest
    named = kwargs.pop("device", None)
    device = tensor.device if named is None else _device(named)
    if device.type == "cuda":
        device = CUDA
    rest = [kwargs.pop("dtype", None) or tensor.dtype, *rest]
    return (tensor, *rest) if device == tensor.device else (tensor, device, *rest), kwargs


def _autocast(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    kind = CASTS.get(name)
    if kind is None:
        return args, kwargs

    def eligible(x: Any) -> bool:
        return isinstance(x, GPUTensor) and x.is_floating_point() and x.dtype is not torch.float64

    dtypes = {x.dtype for x in tree_leaves((args, kwargs)) if eligible(x)}
    if CASTS[name] == 2 and len(dtypes) < 2:
        return args, kwargs
    dtype = torch.get_autocast_dtype("cuda") if kind == 0 else torch.float32
    changed: tuple[Sequence[Any], dict[str, Any]] = tree_map(
        lambda x: x.to(dtype) if eligible(x) else x, (args, kwargs)
    )
    return changed


def _held(value: Any) -> Any:
    if isinstance(value, GPUTensor):
        return value.held
    return CPU if isinstance(value, torch.device) else value


def _changes_first(func: Any) -> bool:
    arguments = func._schema.arguments
    return bool(arguments and arguments[0].alias_info is not None and arguments[0].alias_info.is_write)


def _outputs(func: Any, args: Sequence[Any], kwargs: dict[str, Any], out: Any, wrap: bool) -> Any:
    """Return the changed arguments of an operation in place, and new tensors of others."""
    if not func._schema.is_mutable:
        return tree_map(lambda x: GPUTensor(x) if wrap and isinstance(x, Tensor) else x, out)
    given = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | kwargs
    changed = {
        id(_held(given[argument.name])): given[argument.name]
        for argument in func._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write and argument.name in given
    }
    for argument in changed.values():
        same = not isinstance(argument, GPUTensor) or argument.shape == argument.held.shape
        assert same, f"{func} changes the shape in place, which is not emulated"
    return tree_map(
        lambda x: changed.get(id(x), GPUTensor(x) if wrap else x) if isinstance(x, Tensor) else x, out
    )


class Event:
    """An event of the stream; it has passed when it is waited for, or asked about for the second time."""

    gpu: EmulatedGPU

    def __init__(self, enable_timing: bool = False, blocking: bool = False) -> None:
        self._asked = 0
        self._copies: list[tuple[Tensor, Tensor]] = []

    def record(self, stream: Any = None) -> None:
        self._asked = 0
        self._copies = list(self.gpu.late)

    def query(self) -> bool:
        self._asked += 1
        if self._asked > 1:
            self.gpu.arrive(self._copies)
        return self._asked > 1

    def synchronize(self) -> None:
        self.gpu.waits("an event", arrived=False)
        self._asked = 1
        self.gpu.arrive(self._copies)

    def elapsed_time(self, end: Event) -> float:
        return 10.0


class EmulatedGPU:
    """The state of the emulated device.

    Attributes:
        recording: Whether `synchronisations` are noted.
        synchronisations: What the host waited for, each with the lines that caused it.
        late: Copies to the host that have not arrived: the destination, and its data.
        total_memory: Bytes after which an operation runs out of memory.
        lends: Whether the driver gives memory of the host then, so that torch's own limit alone counts.
        fraction: That limit, as a fraction of the total memory.
        used: Bytes of the tensors that are alive, without what kernels need in between.
        peak: The most of these since the peak was reset.
        caller: Where the backward pass that runs was called.
    """

    def __init__(self, total_memory: int) -> None:
        self.total_memory = total_memory
        self.lends, self.fraction = False, math.inf
        self.recording = False
        self.synchronisations: list[str] = []
        self.late: list[tuple[Tensor, Tensor]] = []
        self._pinned: set[int] = set()
        self.used = self.peak = 0
        self._stored: dict[int, int] = {}
        self.caller: FrameType | None = None
        self._random = torch.Generator().get_state()

    def allocates(self, held: Tensor) -> None:
        """Count the memory of a tensor, unless it is a view.

        Raises:
            torch.OutOfMemoryError: It is more than there is left.
        """
        storage = held.untyped_storage()
        if storage._cdata in self._stored:
            return
        size = -(-storage.nbytes() // GRAIN) * GRAIN
        limit = self.total_memory * min(1.0, self.fraction)
        if self.used + size > limit and not (self.lends and self.fraction == math.inf):
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes.")
        self._stored[storage._cdata] = size
        weakref.finalize(storage, self._free, storage._cdata).atexit = False
        self.used += size
        self.peak = max(self.peak, self.used)

    def _free(self, key: int) -> None:
        self.used -= self._stored.pop(key)

    def reset_peak(self, device: Any = None) -> None:
        self.peak = self.used

    def waits(self, reason: str, arrived: bool = True) -> None:
        """Note that the host waits for the device, by which all copies have arrived."""
        if arrived:
            self.arrive(list(self.late))
        if self.recording:
            self.synchronisations.append(f"{reason}: {self._lines()}")

    def pin(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self._pinned.add(storage._cdata)
        weakref.finalize(storage, self._pinned.discard, storage._cdata).atexit = False

    def _lines(self) -> str:
        """Return the line of this repository that runs, and the line of a library that it led to."""
        frame: FrameType | None = sys._getframe(2)
        inner, outer = "", self.caller
        while frame is not None:
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(ROOT / "src") or path.is_relative_to(ROOT / "tests"):
                if path != Path(__file__):
                    return f"{path.relative_to(ROOT)}:{frame.f_lineno}{inner}"
            elif not inner and "torch" not in path.parts and "site-packages" in path.parts:
                parts = path.parts[path.parts.index("site-packages") + 1 :]
                inner = f" < {'/'.join(parts)}:{frame.f_lineno}"
            frame = frame.f_back
            if frame is None:
                frame, outer = outer, None
        return inner.removeprefix(" < ")

    def is_pinned(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self._pinned

    def arrives_later(self, destination: Tensor) -> None:
        """Spoil the copy until it has arrived."""
        self.late.append((destination, destination.clone()))
        if destination.is_floating_point():
            destination.fill_(torch.nan)
        else:
            destination.bitwise_not_()

    def arrive(self, copies: list[tuple[Tensor, Tensor]]) -> None:
        for copy in copies:
            if any(copy is waiting for waiting in self.late):
                copy[0].copy_(copy[1])
        self.late = [waiting for waiting in self.late if not any(waiting is copy for copy in copies)]

    @contextlib.contextmanager
    def own_random_state(self) -> Iterator[None]:
        outer = torch.get_rng_state()
        torch.set_rng_state(self._random)
        try:
            yield
        finally:
            self._random = torch.get_rng_state()
            torch.set_rng_state(outer)

    def seed(self, seed: int) -> None:
        self._random = torch.Generator().manual_seed(seed).get_state()

    def random_state(self, device: Any = None) -> Tensor:
        return self._random.clone()

    def set_random_state(self, state: Tensor, device: Any = None) -> None:
        self._random = state.clone()


def _no_grad(mode: bool) -> contextlib.AbstractContextManager[None]:
    return torch.no_grad() if mode else contextlib.nullcontext()


@contextlib.contextmanager
def emulated_gpu(total_memory: int = 80 * 2**30) -> Iterator[EmulatedGPU]:
    """Let PyTorch and Lightning see one CUDA device, until the end of the context.

    Args:
        total_memory: Memory of the device in bytes, as PyTorch reports it.
    """
    import bitsandbytes  # noqa: F401  # looks for a device when it is imported
    import lightning.fabric.accelerators.cuda as fabric
    import peft  # noqa: F401  # likewise

    from tests.support.emulated_nf4 import emulated_nf4

    gpu = EmulatedGPU(total_memory)
    functions = Functions()
    operations = Operations(gpu, functions)
    run_engine: Any = torch.autograd._engine_run_backward  # type: ignore[attr-defined]

    def in_thread(*args: Any, **kwargs: Any) -> Any:
        with functions, operations:
            return run_engine(*args, **kwargs)

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        """Run in another thread, as for a GPU: without context variables, and nothing is left if it fails."""
        if gpu.caller is not None:
            with torch._C._EnableTorchFunction():  # for forward passes that are repeated
                return run_engine(*args, **kwargs)
        gpu.caller = sys._getframe()
        try:
            with ThreadPoolExecutor(max_workers=1) as thread:
                return thread.submit(in_thread, *args, **kwargs).result()
        finally:
            gpu.caller = None

    properties = SimpleNamespace(
        total_memory=total_memory, major=9, minor=0, name="Emulated GPU", multi_processor_count=132
    )
    stream = SimpleNamespace(synchronize=lambda: gpu.waits("the stream"))
    event = type("Event", (Event,), {"gpu": gpu})
    replaced: dict[str, Any] = {
        "Event": event,
        "_initialized": True,
        "_lazy_init": lambda: None,
        "current_device": lambda: 0,
        "current_stream": lambda device=None: stream,
        "device": lambda device: contextlib.nullcontext(),
        "device_count": lambda: 1,
        "empty_cache": lambda: None,
        "get_device_capability": lambda device=None: (9, 0),
        "get_device_name": lambda device=None: properties.name,
        "get_device_properties": lambda device=None: properties,
        "get_rng_state": gpu.random_state,
        "get_rng_state_all": lambda: [gpu.random_state()],
        "ipc_collect": lambda: None,
        "is_available": lambda: True,
        "is_bf16_supported": lambda *args, **kwargs: True,
        "is_current_stream_capturing": lambda: False,
        "is_initialized": lambda: True,
        "manual_seed": gpu.seed,
        "manual_seed_all": gpu.seed,
        "max_memory_allocated": lambda device=None: gpu.peak,
        "max_memory_reserved": lambda device=None: gpu.peak,
        "mem_get_info": lambda device=None: (gpu.total_memory - gpu.used, gpu.total_memory),
        "memory_allocated": lambda device=None: gpu.used,
        "memory_reserved": lambda device=None: gpu.used,
        "reset_peak_memory_stats": gpu.reset_peak,
        "set_device": lambda device: None,
        "set_per_process_memory_fraction": lambda fraction, device=None: setattr(gpu, "fraction", fraction),
        "set_rng_state": gpu.set_random_state,
        "set_rng_state_all": lambda states: gpu.set_random_state(states[0]),
        "synchronize": lambda device=None: gpu.waits("the device"),
    }
    lifts = torch._C._only_lift_cpu_tensors()
    cudnn = torch.backends.cuda.cudnn_sdp_enabled()
    strict = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    with contextlib.ExitStack() as stack:
        stack.callback(torch.use_deterministic_algorithms, strict, warn_only=warn_only)
        stack.callback(torch.backends.cuda.enable_cudnn_sdp, cudnn)
        stack.enter_context(mock.patch.dict(os.environ))  # a run sets variables that CUDA reads
        stack.enter_context(mock.patch.multiple(torch.cuda, **replaced))
        stack.enter_context(
            mock.patch.multiple(
                fabric,
                num_cuda_devices=lambda: 1,
                is_cuda_available=lambda: True,
                _clear_cuda_memory=lambda: None,
            )
        )
        stack.enter_context(
            mock.patch.object(torch._C, "_cuda_clearCublasWorkspaces", lambda: None, create=True)
        )
        stack.enter_context(mock.patch.object(torch.autograd, "_engine_run_backward", run_backward))
        for module in (torch.amp, torch.amp.autocast_mode):
            stack.enter_context(mock.patch.object(module, "is_autocast_available", lambda device_type: True))
        # A view that is made of a normal tensor in inference mode could not be a tensor of this class.
        stack.enter_context(mock.patch.object(torch._C, "_InferenceMode", _no_grad))
        stack.enter_context(mock.patch.object(Operations, "entered", operations))
        stack.callback(torch._C._set_only_lift_cpu_tensors, lifts)
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device="cuda")
        stack.enter_context(emulated_nf4())
        stack.enter_context(functions)
        stack.enter_context(operations)
        yield gpu
