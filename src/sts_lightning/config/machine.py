"""Settings chosen by the hardware: accelerator, precision, chunk size and determinism left at ``auto``."""

from __future__ import annotations

import copy
import functools
import logging
import os
from dataclasses import dataclass, replace

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from sts_lightning.core.errors import ConfigError
from sts_lightning.core.hardware import cpu_multiplies_bfloat16, hidden_gpu, local_gpu

log = logging.getLogger(__name__)

CPU_CHUNK_TOKENS = 512
AMX_CHUNK_TOKENS = 1536
"""Where bfloat16 is multiplied by tiles, what each chunk costs besides its products weighs more."""

DTYPE_OF = {
    "32-true": "float32",
    "bf16-mixed": "bfloat16",
    "bf16-true": "bfloat16",
    "16-mixed": "float16",
    "16-true": "float16",
}
"""What ``model.dtype=auto`` is under each precision: in training the weights are frozen."""

GPU_CHUNK_TOKENS = 16384
MPS_CHUNK_TOKENS = 4096


@dataclass(frozen=True)
class Machine:
    """The hardware that a run trains on, and the settings that depend on it.

    Attributes:
        accelerator: ``cpu``, ``gpu`` (CUDA) or ``mps`` (Apple).
        devices: Number of processes, each on a device; -1 for all visible GPUs.
        precision: Precision of training, in Lightning's names.
        chunk_tokens: Padded tokens that are encoded together.
        deterministic: Value for Lightning's Trainer.
        reasons: Why the settings that were ``auto`` have their values; empty where the user gave all.
    """

    accelerator: str
    devices: int
    precision: str
    chunk_tokens: int
    deterministic: bool | str
    reasons: tuple[str, ...]


def decide(cfg: DictConfig) -> Machine:
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
    return Machine(accelerator, trainer.devices, precision, chunk_tokens, deterministic, tuple(reasons))


def decided(cfg: DictConfig, machine: Machine) -> DictConfig:
    """Return a copy of a resolved configuration with the decisions in place of ``auto``.

    The accelerator stays ``auto``: a run that is resumed on another machine takes what that has, with
    numbers as close to those of the first as precision and chunk size can make them.
    """
    changed = copy.deepcopy(cfg)
    changed.precision = machine.precision
    changed.model = trained_model(changed, machine.precision)
    changed.trainer.chunk_tokens = machine.chunk_tokens
    changed.trainer.deterministic = machine.deterministic
    return changed


def without_repetition(machine: Machine, trainer: DictConfig, model_type: str) -> Machine:
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
    """Return the device to which quantised weights are loaded: that of this process."""
    return local_gpu() if machine.accelerator == "gpu" else "cpu"


def fix_workspace(machine: Machine) -> None:
    """Have cuBLAS compute the same sums in every run, where the run is deterministic.

    PyTorch reads this variable once, at the first matrix product of the process. Lightning sets it when its
    Trainer is built, which is after that product if a quantised model of an unknown type is probed.
    """
    if machine.accelerator == "gpu" and machine.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def hide_gpus() -> None:
    """Hide the GPUs from a command that computes on the CPU, before anything has looked for them.

    Libraries open what they see: bitsandbytes, which peft imports, asks each GPU for its kind. In Python and
    in a notebook they stay visible, since what comes next may compute on one.
    """
    if HydraConfig.initialized():
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def cuda_devices() -> int:
    """Return the number of visible CUDA devices."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def choose_accelerator(wanted: str, key: str) -> str:
    """Return the hardware of training or evaluation: ``auto`` is CUDA, else Apple's GPU, else the CPU.

    Args:
        wanted: ``auto``, ``cpu``, ``gpu`` or ``mps``.
        key: Setting that it comes from.

    Raises:
        ConfigError: It is not there.
    """
    if wanted == "gpu" and not cuda_devices():
        raise ConfigError(
            f"{key}=gpu, but no CUDA device is visible.",
            key=key,
            hint=hidden_gpu() or f"Set {key}=auto, or {key}=cpu.",
        )
    if wanted == "mps" and not torch.backends.mps.is_available():
        raise ConfigError(f"{key}=mps, but PyTorch finds no Apple GPU.", key=key, hint=f"Set {key}=auto.")
    if wanted != "auto":
        return wanted
    if cuda_devices():
        return "gpu"
    if text := hidden_gpu():
        _warn_once(text)
    return "mps" if torch.backends.mps.is_available() else "cpu"


@functools.cache
def _warn_once(text: str) -> None:
    log.warning("WARNING: %s", text)


def _accelerator(trainer: DictConfig, reasons: list[str]) -> str:
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
    """Return the precision of training for an accelerator, and the reason."""
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
    if accelerator == "cpu":
        tiles = precision == "bf16-mixed" and torch.cpu._is_amx_tile_supported()
        return AMX_CHUNK_TOKENS if tiles else CPU_CHUNK_TOKENS
    return MPS_CHUNK_TOKENS if accelerator == "mps" else GPU_CHUNK_TOKENS
