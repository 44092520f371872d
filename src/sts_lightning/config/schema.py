"""Types of the configuration, checked by Hydra before anything runs.

YAML in conf/ holds the values. The groups model, loss and data differ by choice and are checked against
the signature of their ``_target_`` instead (see `sts_lightning.config.constraints`). The metadata ``group``
says how many nodes with a ``_target_`` such a group has: one, an optional one, or several by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, get_args

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

from sts_lightning.choices import (
    Accelerator,
    Aggregate,
    Denoise,
    Deterministic,
    DevSet,
    EvalPrecision,
    Frozen,
    Init,
    Precision,
    Quantization,
    Schedule,
    SentEvalText,
    Suite,
    TextEdit,
    TrainPrecision,
)
from sts_lightning.config.cells import GROUP, published_cells

FLAG: dict[str, Any] = {"choices": (True, False)}
"""Metadata of a field that is true or false; the type bool would take 7 and ``yes`` as well."""


def _one_of(choices: Any) -> Any:
    """Required field that takes one of the values of a `Literal`."""
    return field(default=MISSING, metadata={"choices": get_args(choices)})


def _one_of_or_none(choices: Any) -> Any:
    """Field that takes null, the default, or one of the values of a `Literal`."""
    return field(default=None, metadata={"choices": (None, *get_args(choices))})


def _between(low: int, high: int) -> Any:
    return field(default=MISSING, metadata={"range": (low, high)})


@dataclass
class PromptConfig:
    """Template around each sentence, and how its vector is pooled."""

    template: str | None = None
    view_templates: list[str] | None = None
    denoise: str = _one_of(Denoise)
    denoise_evaluation: Any = field(default=MISSING, metadata=FLAG)
    pooling: str | None = None
    layer: int = MISSING


@dataclass
class OptimConfig:
    """Settings of AdamW and its schedule."""

    lr: float = MISSING
    head_lr: float | None = None
    weight_decay: float = MISSING
    layer_decay: float = MISSING
    decay_embeddings: Any = field(default=MISSING, metadata=FLAG)
    betas: tuple[float, float] = MISSING
    eps: float = MISSING
    schedule: str = _one_of(Schedule)
    warmup: float = MISSING
    stretch: float = 1.0


@dataclass
class TrainerConfig:
    """Settings of Lightning's Trainer."""

    accelerator: str = _one_of(Accelerator)
    cpu_fallback: Any = field(default=MISSING, metadata=FLAG)
    devices: int = MISSING
    num_nodes: int = MISSING
    precision: str = _one_of(TrainPrecision)
    max_epochs: int | None = None
    max_steps: int | None = None
    limit_train_batches: int | None = None
    val_every: float | None = None
    save_every: int = MISSING
    keep_every: int | None = None
    select_untuned: Any = field(default=False, metadata=FLAG)
    wise_ft: list[float] = field(default_factory=list)
    gradient_clip_val: float | None = None
    log_every_n_steps: int = MISSING
    deterministic: Any = field(default=MISSING, metadata={"choices": get_args(Deterministic)})
    chunk_tokens: Any = MISSING
    micro_batch_size: Any = None
    gradient_checkpointing: Any = field(default=MISSING, metadata=FLAG)
    official_gather: Any = field(default=MISSING, metadata=FLAG)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class EvaluationConfig:
    """Report on the test tasks at the end of training."""

    final: Any = field(default=MISSING, metadata=FLAG)
    untuned: Any = field(default=MISSING, metadata=FLAG)
    rank: Any = field(default=False, metadata=FLAG)
    aggregate: str = _one_of(Aggregate)
    precision: str | None = _one_of_or_none(Precision)
    text_edit: str = _one_of(TextEdit)
    max_length: int | None = None


@dataclass
class QueueConfig:
    """Additional negatives from a momentum encoder."""

    size: int = MISSING
    momentum: float = MISSING
    official: bool = MISSING


@dataclass
class TrainConfig:
    """Configuration of `python train.py`."""

    name: str = MISSING
    seed: int = _between(0, 2**32 - 1)  # the range of NumPy's seeds
    data_root: str = MISSING
    senteval_text: str = _one_of(SentEvalText)
    dev: str = _one_of(DevSet)
    path: Any = None
    precision: str = _one_of(TrainPrecision)
    debug: Any = field(default=MISSING, metadata=FLAG)
    published: dict[str, Any] = field(default_factory=dict)
    resume: str | None = None
    trust: list[str] = field(default_factory=list)
    trust_remote_code: Any = field(default=False, metadata=FLAG)
    stages: dict[str, Any] = field(default_factory=dict)
    share_stages: Any = field(default=None, metadata={"choices": (None, True, False)})
    stage: str | None = None
    plan: Any = False
    init_from: str | None = None
    init: str = _one_of(Init)
    freeze: str = _one_of(Frozen)
    model: Any = field(default=MISSING, metadata={"group": "one"})
    prompt: PromptConfig = field(default_factory=PromptConfig)
    loss: Any = field(default=MISSING, metadata={"group": "one"})
    regularizer: Any = field(default=None, metadata={"group": "optional"})
    companion: Any = field(default=None, metadata={"group": "optional"})
    queue: QueueConfig = field(default_factory=QueueConfig)
    data: Any = field(default=MISSING, metadata={"group": "one"})
    optim: OptimConfig = field(default_factory=OptimConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    logger: dict[str, Any] = field(default_factory=dict, metadata={"group": "named"})
    callbacks: dict[str, Any] = field(default_factory=dict, metadata={"group": "named"})


@dataclass
class EvalConfig:
    """Configuration of `python eval.py`."""

    ckpt: str | None = None
    step: int | None = None
    trust: list[str] = field(default_factory=list)
    trust_remote_code: Any = field(default=False, metadata=FLAG)
    data_root: str = MISSING
    senteval_text: str | None = _one_of_or_none(SentEvalText)
    suite: str = _one_of(Suite)
    tasks: list[str] | None = None
    test: Any = None
    sentence1: str = "sentence1"
    sentence2: str = "sentence2"
    score: str = "score"
    score_range: list[float] | None = None
    languages: list[str] | None = None
    subsets: list[str] | None = None
    splits: list[str] | None = None
    folds: int = MISSING
    normalize: Any = field(default=MISSING, metadata=FLAG)
    aggregate: str = _one_of(Aggregate)
    precision: str | None = _one_of_or_none(EvalPrecision)
    text_edit: str | None = _one_of_or_none(TextEdit)
    max_length: int | None = None
    quantization: str | None = _one_of_or_none(Quantization)
    accelerator: str = _one_of(Accelerator)
    devices: int = MISSING
    cache_dir: str | None = None
    debug: Any = field(default=MISSING, metadata=FLAG)
    model: Any = field(default=MISSING, metadata={"group": "one"})
    prompt: PromptConfig = field(default_factory=PromptConfig)


def register_schemas() -> None:
    """Register schemas and published cells for Hydra's defaults lists."""
    store = ConfigStore.instance()
    store.store(name="train_schema", node=TrainConfig)
    store.store(name="eval_schema", node=EvalConfig)
    for cell, settings in published_cells().items():
        store.store(group=GROUP, name="_".join(cell), node=settings)
