"""Types of the configuration: what Hydra checks before anything runs.

YAML in conf/ holds the values. The groups model, loss and data differ by choice and are checked against
the signature of their ``_target_`` instead (see `sts_lightning.config.build`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING


def _one_of(*choices: str) -> Any:
    return field(default=MISSING, metadata={"choices": choices})


def _between(low: int, high: int) -> Any:
    return field(default=MISSING, metadata={"range": (low, high)})


@dataclass
class PromptConfig:
    """A template around each sentence, and how the vector is read out under it."""

    template: str | None = None
    view_templates: list[str] | None = None
    denoise: str = _one_of("none", "shift", "pad")
    denoise_evaluation: bool = MISSING
    pooling: str | None = None
    layer: int = MISSING


@dataclass
class OptimConfig:
    """AdamW and its schedule."""

    lr: float = MISSING
    head_lr: float | None = None
    weight_decay: float = MISSING
    layer_decay: float = MISSING
    decay_embeddings: bool = MISSING
    betas: tuple[float, float] = MISSING
    eps: float = MISSING
    schedule: str = _one_of("linear", "cosine", "constant_with_warmup")
    warmup: float = MISSING


@dataclass
class TrainerConfig:
    """What Lightning's Trainer is told."""

    accelerator: str = _one_of("auto", "cpu", "gpu", "mps")
    cpu_fallback: bool = MISSING
    devices: int = MISSING
    num_nodes: int = MISSING
    precision: str = _one_of("auto", "32-true", "bf16-mixed", "16-mixed")
    max_epochs: int = MISSING
    max_steps: int = MISSING
    limit_train_batches: int | None = None
    val_every: float = MISSING
    save_every: int = MISSING
    gradient_clip_val: float | None = None
    log_every_n_steps: int = MISSING
    deterministic: Any = field(default=MISSING, metadata={"choices": ("auto", "warn", True, False)})
    chunk_tokens: Any = MISSING
    micro_batch_size: Any = None
    gradient_checkpointing: bool = MISSING
    official_gather: bool = MISSING
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class EvaluationConfig:
    """The report on the test tasks at the end of training."""

    final: bool = MISSING
    untuned: bool = MISSING
    aggregate: str = _one_of("all", "mean", "wmean")
    precision: str | None = field(
        default=None, metadata={"choices": (None, "32-true", "bf16-true", "16-true")}
    )
    text_edit: str = _one_of("none", "official")


@dataclass
class QueueConfig:
    """Further negatives from a momentum encoder."""

    size: int = MISSING
    momentum: float = MISSING


@dataclass
class TrainConfig:
    """`python train.py`."""

    name: str = MISSING
    seed: int = _between(0, 2**32 - 1)  # what NumPy's generator takes
    data_root: str = MISSING
    path: str | None = None
    precision: str = MISSING
    debug: bool = MISSING
    published: dict[str, Any] = field(default_factory=dict)
    resume: str | None = None
    trust: list[str] = field(default_factory=list)
    trust_remote_code: bool = False
    stages: dict[str, Any] = field(default_factory=dict)
    init_from: str | None = None
    init: str = _one_of("best", "final")
    freeze: str = _one_of("none", "encoder", "encoder_with_dropout")
    model: Any = MISSING
    prompt: PromptConfig = field(default_factory=PromptConfig)
    loss: Any = MISSING
    regularizer: Any = None
    queue: QueueConfig = field(default_factory=QueueConfig)
    data: Any = MISSING
    optim: OptimConfig = field(default_factory=OptimConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    logger: dict[str, Any] = field(default_factory=dict)
    callbacks: dict[str, Any] = field(default_factory=dict)


@dataclass
class EvalConfig:
    """`python eval.py`."""

    ckpt: str | None = None
    trust: list[str] = field(default_factory=list)
    trust_remote_code: bool = False
    data_root: str = MISSING
    suite: str = _one_of("sts", "transfer", "probing", "relatedness", "mteb")
    tasks: list[str] | None = None
    languages: list[str] | None = None
    subsets: list[str] | None = None
    splits: list[str] | None = None
    folds: int = MISSING
    normalize: bool = MISSING
    aggregate: str = _one_of("all", "mean", "wmean")
    precision: str | None = field(
        default=None, metadata={"choices": (None, "32-true", "bf16-true", "16-true")}
    )
    text_edit: str | None = field(default=None, metadata={"choices": (None, "none", "official")})
    quantization: str | None = field(default=None, metadata={"choices": (None, "none", "4bit", "8bit")})
    accelerator: str = _one_of("auto", "cpu", "gpu")
    debug: bool = MISSING
    model: Any = MISSING
    prompt: PromptConfig = field(default_factory=PromptConfig)


def register_schemas() -> None:
    """Make the schemas known to Hydra's defaults lists."""
    store = ConfigStore.instance()
    store.store(name="train_schema", node=TrainConfig)
    store.store(name="eval_schema", node=EvalConfig)
