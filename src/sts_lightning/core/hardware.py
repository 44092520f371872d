"""The hardware: what it decides of a run, its cores and GPUs, and the settings of a process for them.

`set_cpu_defaults` and `set_gpu_defaults` set variables that torch reads when it is loaded or uses a GPU, so
they are called before; a variable that the user has set stays. Those for the CPU were measured to be worth
their lines:

- Cached kernels: oneDNN and torch keep 1,024 each, one for each shape of a product in bfloat16 or 8 bits.
  Nearly every chunk has another shape, so the caches take gigabytes within a hundred steps.
- Waiting threads: a thread spins 300,000 turns for the others. Beside another program the thread that it
  waits for is often not running: two runs at once on two cores are four to seven times slower.
- Number of threads: torch starts a thread for each core that the process is bound to. In a container with
  less computing time than these cores have, the system stops all threads for most of the time.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import logging
import math
import os
import platform
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from omegaconf import DictConfig

from sts_lightning.core.cards import Card, known_card
from sts_lightning.core.errors import ConfigError

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)

CACHES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "256", "LRU_CACHE_CAPACITY": "32"}
"""Largest numbers of kernels that oneDNN and torch's layer over it cache; a chunk needs about 15."""

SPINS, TURNS = "GOMP_SPINCOUNT", "10000"
"""Turns before a waiting thread of GNU's OpenMP sleeps: more than lie between two products."""

THREADS = "OMP_NUM_THREADS"
"""Variable that sets torch's number of threads."""


def set_cpu_defaults(root: Path = Path("/")) -> None:
    """Limit cached kernels, the spinning of waiting threads, and the number of threads.

    Args:
        root: Root of the file system.
    """
    for name, capacity in CACHES.items():
        os.environ.setdefault(name, capacity)
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault(SPINS, TURNS)
    cores = count_cores(root)
    if cores < _bound_cores():
        os.environ.setdefault(THREADS, str(cores))


TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""Numbers of two parameters of `mallopt` in glibc's malloc.h."""


def keep_freed_memory() -> bool:
    """Let the process keep freed memory until it ends; return whether the C library can.

    It is for training alone. By default glibc returns the activations of a step and the gradient of the word
    table to the system, which clears page by page what the next step takes again: 5 to 10 % of the time of a
    small model's step. The peak stays.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return False
    return bool(mallopt(TRIM_THRESHOLD, 2**31 - 1) and mallopt(MMAP_MAX, 0))


def count_cores(root: Path = Path("/")) -> int:
    """Return the number of cores that this process may use, in a container too.

    These are the cores it is bound to, or fewer if its container has less computing time than they, as by
    ``docker run --cpus`` or the limit of a Kubernetes pod.

    Args:
        root: Root of the file system.
    """
    return max(1, math.ceil(min(_bound_cores(), _quota(root / "sys/fs/cgroup"))))


def _bound_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota(group: Path) -> float:
    """Return the limit of a container in cores, which its control group has: time granted in each period."""
    try:
        if (group / "cpu.max").exists():
            granted, period = (group / "cpu.max").read_text().split()
        else:  # version 1
            granted = (group / "cpu/cpu.cfs_quota_us").read_text().strip()
            period = (group / "cpu/cpu.cfs_period_us").read_text()
    except OSError:  # another system than Linux, or no container
        return math.inf
    return math.inf if granted in ("max", "-1") else int(granted) / int(period)


NUMBERS = ("LOCAL_RANK", "SLURM_LOCALID", "JSM_NAMESPACE_LOCAL_RANK")
"""Variables with the number of a process on its machine: of Lightning and torchrun, srun, and jsrun."""

ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""The same setting of torch by its old and its new name.

torch 2.8 reads the old one alone, and torch 2.9 ignores expandable segments in the new one
(https://github.com/pytorch/pytorch/issues/183387); torch 2.13 reads both, the old one first.
"""


def cpu_multiplies_bfloat16() -> bool:
    """Return whether the CPU has instructions for products of bfloat16 (AMX or AVX512_BF16)."""
    import torch

    return torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()


def multiplies_bfloat16(device: str) -> bool:
    """Return whether a device multiplies bfloat16 natively: CUDA from compute capability 8.0, some CPUs.

    Args:
        device: Name of the device, as in ``cuda:0``.
    """
    import torch

    if device.startswith("cuda"):
        return torch.cuda.get_device_capability(device)[0] >= 8
    return device == "cpu" and cpu_multiplies_bfloat16()


def set_gpu_defaults() -> None:
    """Have torch extend the memory that it holds on a GPU, instead of holding many pieces of fixed size.

    Each step has chunks of other shapes, and pieces of freed memory would fit few of them. torch reads the
    variable when it first uses a GPU; processes that this one starts inherit it. A user's value stays.

    Only where it works: not on Windows, and not in its Linux (https://github.com/pytorch/pytorch/issues/192330).
    """
    if not driver_lends_memory() and not any(name in os.environ for name in ALLOCATOR):
        os.environ[ALLOCATOR[0]] = "expandable_segments:True"


def driver_lends_memory() -> bool:
    """Return whether a GPU that is full gets memory of the host, over the bus, instead of an error.

    NVIDIA's driver does so on Windows, and in its Linux (https://github.com/microsoft/WSL/issues/11050).
    """
    return sys.platform != "linux" or "microsoft" in platform.release().lower()


def prepare_gpu(device: torch.device) -> None:
    """Set for the whole process what an encoder on a GPU needs.

    Attention does not run in cuDNN, which torch prefers on H100 and later cards outside of deterministic
    training: it makes a plan for each new shape, in 40 to 70 ms, and nearly every chunk has a new one. The
    vectors of a run's report and of an evaluation are then those of the same kernels.

    Where the driver lends memory, torch itself counts what is left of the card's own: a step that takes more
    is to be divided, not to run ten times as long.

    Args:
        device: The GPU.
    """
    import torch

    torch.backends.cuda.enable_cudnn_sdp(False)
    if driver_lends_memory():
        free, total = torch.cuda.mem_get_info(device)
        own = min(total, free + torch.cuda.memory_reserved(device))
        torch.cuda.set_per_process_memory_fraction(own / total, device)


def local_gpu() -> str:
    """Return the GPU of this process: that of its number on its machine, as Lightning does.

    A task of SLURM that sees one GPU, by ``--gpus-per-task=1``, knows it as the first, whatever its number.
    """
    import torch

    number = next((int(os.environ[name]) for name in NUMBERS if name in os.environ), 0)
    return f"cuda:{min(number, torch.cuda.device_count() - 1)}"


def local_card(device: str | torch.device | None = None) -> Card:
    """Return a GPU with its name and, where they are known, its peaks; by default that of this process."""
    import torch

    name = torch.cuda.get_device_name(device or local_gpu())
    return known_card(name) or Card(name, 0)


@functools.cache
def hidden_gpu() -> str | None:
    """Return what keeps torch from the GPU of this machine; None if there is none, or the user hides it."""
    import torch

    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1") or not Path("/dev/nvidia0").exists():
        return None
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:  # such as a driver that is too old, a build for CPUs
        reason = " ".join(str(error).split())
        return f"torch {torch.__version__} does not see the NVIDIA GPU of this machine: {reason}"
    return None


TRAINING_CHUNKS = {"cpu": 512, "amx": 1536, "mps": 4096, "gpu": 16384}
"""Default chunk sizes of training, in padded tokens.

Where bfloat16 is multiplied by tiles (AMX), what each chunk costs besides its products weighs more.
"""

ENCODING_CHUNKS = {"cpu": 1024, "gpu": 32768}
"""The same without gradient; on a CPU small chunks stay in a core's cache."""

DTYPE_OF = {
    "32-true": "float32",
    "bf16-mixed": "bfloat16",
    "bf16-true": "bfloat16",
    "16-mixed": "float16",
    "16-true": "float16",
}
"""What ``model.dtype=auto`` is under each precision: in training the weights are frozen."""


@dataclass(frozen=True)
class Machine:
    """The hardware that a run trains on, and the settings that depend on it.

    Attributes:
        accelerator: ``cpu``, ``gpu`` (CUDA) or ``mps`` (Apple).
        devices: Number of processes, each on a device; -1 for all visible GPUs.
        precision: Precision of training, in Lightning's names.
        chunk_tokens: Padded tokens that are encoded together.
        launch_tokens: See `Card.launch_tokens`; ``auto`` until the model is known.
        deterministic: Value for Lightning's Trainer.
        reasons: Why the settings that were ``auto`` have their values; empty where the user gave all.
    """

    accelerator: str
    devices: int
    precision: str
    chunk_tokens: int
    launch_tokens: int | Literal["auto"]
    deterministic: bool | str
    reasons: tuple[str, ...]


def resolve_machine(cfg: DictConfig) -> Machine:
    """Fill in what the group ``trainer`` leaves to the machine; values that were given are kept.

    ``accelerator=auto`` takes CUDA where a device is visible, then Apple's MPS, then the CPU.
    ``precision=auto`` takes ``bf16-mixed`` where the hardware multiplies bfloat16 natively (NVIDIA from
    compute capability 8.0; CPUs with AMX or AVX512_BF16), else ``32-true``: a CPU that has AVX2 alone
    multiplies bfloat16 several times slower than float32. ``deterministic=auto`` is strict, and a warning on
    Apple GPUs only: with a mere warning PyTorch keeps the fast backward pass of attention on CUDA, whose sums
    depend on timing, so that the same seed would give other numbers.

    Args:
        cfg: A composed configuration.

    Raises:
        ConfigError: No GPU is visible, and the configuration asks for one or must not fall back to the CPU.
    """
    trainer, reasons = cfg.trainer, list[str]()
    accelerator = _accelerator(trainer, reasons)
    precision = cfg.precision
    if precision == "auto":
        precision, why = _precision(accelerator)
        reasons.append(f"{precision} ({why})")
    chunk_tokens = trainer.chunk_tokens
    if chunk_tokens == "auto":
        chunk_tokens = training_chunk_tokens(accelerator, precision)
        reasons.append(f"chunks of {chunk_tokens:,} tokens")
    if cfg.model.get("dtype") == "auto":
        reasons.append(f"weights in {trained_model(cfg, precision).dtype}")
    deterministic = trainer.deterministic
    if deterministic == "auto":
        deterministic = "warn" if accelerator == "mps" else True
        reasons.append(f"deterministic={str(deterministic).lower()}")
    chunks = chunk_tokens, trainer.launch_tokens
    return Machine(accelerator, trainer.devices, precision, *chunks, deterministic, tuple(reasons))


def with_machine(cfg: DictConfig, machine: Machine) -> DictConfig:
    """Return a copy of a resolved configuration with the decisions in place of ``auto``.

    The accelerator stays ``auto``: a run that is resumed on another machine takes what that has, with
    numbers as close to those of the first as precision and chunk size can make them.
    """
    changed = copy.deepcopy(cfg)
    changed.precision = machine.precision
    changed.model = trained_model(changed, machine.precision)
    changed.trainer.chunk_tokens = machine.chunk_tokens
    changed.trainer.launch_tokens = machine.launch_tokens
    changed.trainer.deterministic = machine.deterministic
    return changed


def allow_nondeterminism(machine: Machine, trainer: DictConfig, model_type: str) -> Machine:
    """Return the decisions for a model that cannot repeat a run exactly on a GPU.

    Args:
        machine: The decisions for any other model.
        trainer: The group ``trainer``; a value of ``deterministic`` that was given is kept.
        model_type: Type of the model, for the reason.
    """
    if machine.accelerator != "gpu" or trainer.deterministic != "auto":
        return machine
    reasons = [reason for reason in machine.reasons if not reason.startswith("deterministic")]
    reasons.append(f"deterministic=warn ({model_type} has no deterministic form on CUDA)")
    return replace(machine, deterministic="warn", reasons=tuple(reasons))


def trained_model(cfg: DictConfig, precision: str) -> DictConfig:
    """Return the configuration of a run's model without ``dtype=auto``; weights that train are float32."""
    trains = cfg.model.get("adapter") is None and cfg.optim.freeze == "none"
    return with_dtype(cfg.model, "32-true" if trains else precision)


def with_dtype(model: DictConfig, precision: str) -> DictConfig:
    """Return a model's configuration with the dtype of a precision in place of ``auto``.

    Args:
        model: Configuration group ``model``.
        precision: Precision of training or of inference, in Lightning's names.
    """
    if model.get("dtype") != "auto":
        return model
    changed = copy.deepcopy(model)
    changed.dtype = DTYPE_OF[precision]
    return changed


def weights_device(machine: Machine) -> str:
    """Return the device to which weights are loaded: that of this process."""
    return local_gpu() if machine.accelerator == "gpu" else "cpu"


def set_cublas_workspace(machine: Machine) -> None:
    """Have cuBLAS compute the same sums in every run, where the run is deterministic.

    PyTorch reads this variable once, at the first matrix product of the process. Lightning sets it when its
    Trainer is built, which is after that product if a quantised model of an unknown type is probed.
    """
    if machine.accelerator == "gpu" and machine.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def disable_cuda() -> None:
    """Hide the GPUs from a command that computes on the CPU, before anything has looked for them.

    Libraries open what they see: bitsandbytes, which peft imports, asks each GPU for its kind. In Python and
    in a notebook they stay visible, since what comes next may compute on one.
    """
    from hydra.core.hydra_config import HydraConfig

    if HydraConfig.initialized():
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def cuda_devices() -> int:
    """Return the number of visible CUDA devices."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def choose_accelerator(wanted: str, key: str) -> str:
    """Return the hardware of training or evaluation: ``auto`` is CUDA, else Apple's GPU, else the CPU.

    Args:
        wanted: ``auto``, ``cpu``, ``gpu``, also called ``cuda``, or ``mps``.
        key: Setting that it comes from.

    Raises:
        ConfigError: It is not there.
    """
    import torch

    if wanted in ("gpu", "cuda") and not cuda_devices():
        raise ConfigError(
            f"{key}={wanted}, but no CUDA device is visible.",
            key=key,
            hint=hidden_gpu() or f"Set {key}=auto, or {key}=cpu.",
        )
    if wanted == "mps" and not torch.backends.mps.is_available():
        raise ConfigError(f"{key}=mps, but PyTorch finds no Apple GPU.", key=key, hint=f"Set {key}=auto.")
    if wanted != "auto":
        return "gpu" if wanted == "cuda" else wanted
    if cuda_devices():
        return "gpu"
    if text := hidden_gpu():
        _warn_once(text)
    return "mps" if torch.backends.mps.is_available() else "cpu"


@functools.cache
def _warn_once(text: str) -> None:
    log.warning("WARNING: %s", text)


def _accelerator(trainer: DictConfig, reasons: list[str]) -> str:
    import torch

    accelerator = choose_accelerator(trainer.accelerator, "trainer.accelerator")
    if trainer.accelerator != "auto":
        return accelerator
    if accelerator == "gpu":
        count = "all" if trainer.devices == -1 else trainer.devices
        reasons.append(f"{count} of {cuda_devices()} CUDA devices, {torch.cuda.get_device_name()}")
    elif not trainer.cpu_fallback:
        raise ConfigError(
            "no CUDA device is visible, and this model is too large for a CPU. Try the recipe with "
            "model=tiny_mistral, or insist with trainer=cpu.",
            key="trainer.cpu_fallback",
        )
    elif accelerator == "mps":
        reasons.append("Apple GPU (no CUDA device is visible)")
    else:
        reasons.append("CPU (no GPU is visible)")
    return accelerator


def _precision(accelerator: str) -> tuple[str, str]:
    import torch

    if accelerator == "gpu":
        major, minor = torch.cuda.get_device_capability()
        if major >= 8:
            return "bf16-mixed", "the GPU multiplies bfloat16 natively"
        return "32-true", f"compute capability {major}.{minor} has no bfloat16"
    if accelerator == "mps":
        return "32-true", "Apple GPU"
    if cpu_multiplies_bfloat16():
        return "bf16-mixed", "the CPU multiplies bfloat16 natively"
    return "32-true", "the CPU has no fast bfloat16"


def training_chunk_tokens(accelerator: str, precision: str) -> int:
    """Return the chunk size that suits an accelerator and a precision of training."""
    import torch

    if accelerator == "cpu":
        tiles = precision == "bf16-mixed" and torch.cpu._is_amx_tile_supported()
        return TRAINING_CHUNKS["amx" if tiles else "cpu"]
    return TRAINING_CHUNKS[accelerator]


def encoding_chunk_tokens(device_type: str) -> int:
    """Return the chunk size that suits a type of device without gradient."""
    return ENCODING_CHUNKS["cpu" if device_type == "cpu" else "gpu"]
