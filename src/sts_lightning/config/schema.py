"""Types of the configuration, checked by Hydra before anything runs.

YAML in conf/ holds the values. The groups model, loss and data differ by choice and are checked against
the signature of their ``_target_`` instead (see `sts_lightning.config.check`). The metadata ``group``
says how many nodes with a ``_target_`` such a group has: one, an optional one, or several by name. ``must``
is a condition on each number of a field, with its words, and ``affects`` what a field changes in a run, see
`Affects`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

from sts_lightning.core.choices import (
    Accelerator,
    Aggregate,
    Classifier,
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
    StoredAs,
    Suite,
    TextEdit,
    TrainPrecision,
)

Affects = Literal["result", "dev", "order", "cost", "nothing"]
"""What a setting changes in a run.

``result``: weights or scores; the default. ``dev``: also these, by the pairs that select the weights.
``order``: how a batch is divided among processes and in time, which draws dropout otherwise and leaves the
gradient as it is. ``cost``: memory and time. ``nothing``: what a run records, or where things lie.
"""

DEV, ORDER, COST, NOTHING = ({"affects": kind} for kind in get_args(Affects)[1:])

COMPONENTS: dict[str, Affects] = {
    "data.seed": "dev",
    "data.limit": "dev",
    "data.dev_path": "dev",
    "data.dev_split": "dev",
    "data.dev_fraction": "dev",
    "data.dev_part": "dev",
    "data.dev_size": "dev",
    "data.num_workers": "cost",
    "auxiliary.cache_dir": "nothing",
}
"""What arguments of components affect, if not the result; of parts of joint data as of ``data``."""

OBSERVERS = (
    "sts_lightning.training.callbacks.rank_monitor.RankMonitor",
    "lightning.pytorch.callbacks.DeviceStatsMonitor",
    "lightning.pytorch.callbacks.LearningRateMonitor",
)
"""Callbacks that record a run and change nothing in it."""

FLAG: dict[str, Any] = {"choices": (True, False)}
"""Metadata of a field that is true or false; the type bool would take 7 and ``yes`` as well."""


def _one_of(choices: Any, **metadata: Any) -> Any:
    """Required field that takes one of the values of a `Literal`."""
    return field(default=MISSING, metadata={"choices": get_args(choices), **metadata})


def _one_of_or_none(choices: Any) -> Any:
    """Field that takes null, the default, or one of the values of a `Literal`."""
    return field(default=None, metadata={"choices": (None, *get_args(choices))})


Must = tuple[Callable[[Any], bool], str]
"""A condition on a number, and its words after "must"."""

SEED: Must = (lambda value: 0 <= value < 2**32, f"lie between 0 and {2**32 - 1}")  # NumPy's range

POSITIVE: Must = (lambda value: value > 0, "be positive")

NOT_NEGATIVE: Must = (lambda value: value >= 0, "not be negative")

BELOW_1: Must = (lambda value: 0 <= value < 1, "lie in [0, 1)")

SHARE: Must = (lambda value: 0 <= value <= 1, "be a share from 0 to 1")

AT_LEAST_1: Must = (lambda value: value >= 1, "be at least 1")

LIMIT: Must = (AT_LEAST_1[0], "be at least 1, or null: no limit")

STORED_AS: Must = (lambda value: value in get_args(StoredAs), f"be among {', '.join(get_args(StoredAs))}")

LENGTH: Must = (lambda value: value == -1 or value >= 1, LIMIT[1])

DEVICES: Must = (LENGTH[0], "be positive, or -1 for all")

CHUNK: Must = (
    lambda value: value == "auto" or (type(value) is int and value >= 1),  # True, too, is an int
    "be at least 1, or auto",
)

MICRO_BATCH: Must = (lambda value: value is None or CHUNK[0](value), "be a number of examples, auto or null")


def _fraction_or_steps(least: float, words: str, optional: bool = False) -> Must:
    """Return the condition of a number of steps: a fraction below 1, or a whole number.

    1.0 may be meant as all of a run or an epoch; as a number of steps it would be one.
    """

    def fits(value: Any) -> bool:
        if value is None or type(value) not in (int, float):
            return value is None and optional
        return bool(least <= value < 1 or (value >= 1 and value % 1 == 0 and repr(value) != "1.0"))

    return fits, f"be {words}"


WARMUP = _fraction_or_steps(0, "a fraction of the run in [0, 1), or a whole number of steps (1: one step)")

EVERY = _fraction_or_steps(
    math.ulp(0),
    "a fraction of an epoch below 1 or a whole number of steps (1: each step), or null: once per epoch",
    optional=True,
)


def _that(must: Must, default: Any = MISSING, **metadata: Any) -> Any:
    return field(default=default, metadata={"must": must, **metadata})


@dataclass
class PromptConfig:
    """Template around each sentence, prefixes of queries and documents, and how a vector is pooled."""

    template: str | None = None
    query: str | None = None
    document: str | None = None
    view_templates: list[str] | None = None
    denoise: str = _one_of(Denoise)
    denoise_evaluation: Any = field(default=MISSING, metadata=FLAG)
    pooling: str | None = None
    layer: int = MISSING


@dataclass
class OptimConfig:
    """Settings of AdamW and its schedule.

    Attributes:
        decay_embeddings: Whether ``layer_decay`` applies to the embeddings; not in STS-Regression's code.
        stretch: The schedule is that of a run this many times as long, within which the run ends.
    """

    freeze: str = _one_of(Frozen)
    lr: float = _that(POSITIVE)
    head_lr: float | None = _that(POSITIVE, None)
    weight_decay: float = _that(NOT_NEGATIVE)
    layer_decay: float = _that((lambda value: 0 < value <= 1, "lie in (0, 1]"))
    decay_embeddings: Any = field(default=True, metadata=FLAG)
    betas: tuple[float, float] = _that(BELOW_1)
    eps: float = _that(POSITIVE)
    schedule: str = _one_of(Schedule)
    warmup: Any = field(default=MISSING, metadata={"must": WARMUP})
    stretch: float = _that(AT_LEAST_1, 1.0)


@dataclass
class TrainerConfig:
    """Settings of Lightning's Trainer.

    Attributes:
        official_gather: With W devices, 1/W of the gradient, as in the code of SimCSE and its followers.
        keep_state: Whether a finished run keeps its state, so that it can be trained further.
    """

    accelerator: str = _one_of(Accelerator)
    cpu_fallback: Any = field(default=MISSING, metadata=FLAG | COST)
    devices: int = _that(DEVICES, **ORDER)
    num_nodes: int = _that(POSITIVE, **ORDER)
    init: str = _one_of(Init)
    max_epochs: int | None = _that(LENGTH, None)
    max_steps: int | None = _that(LENGTH, None)
    limit_train_batches: int | None = _that(LIMIT, None)
    val_every: Any = field(default=None, metadata={"must": EVERY})
    save_every: int = _that(AT_LEAST_1, **NOTHING)
    keep_every: int | None = _that(LIMIT, None, **NOTHING)
    keep_state: Any = field(default=False, metadata=FLAG | NOTHING)
    select_untuned: Any = field(default=False, metadata=FLAG)
    wise_ft: list[float] = field(default_factory=list, metadata={"must": SHARE})
    # PyTorch multiplies a gradient that is too long by limit / norm: a negative limit would reverse it.
    gradient_clip_val: float | None = _that((POSITIVE[0], "be positive, or null: no clipping"), None)
    log_every_n_steps: int = _that(AT_LEAST_1, **NOTHING)
    deterministic: Any = field(default=MISSING, metadata={"choices": get_args(Deterministic)})
    chunk_tokens: Any = field(default=MISSING, metadata={"must": CHUNK, **ORDER})
    micro_batch_size: Any = field(default=None, metadata={"must": MICRO_BATCH, **ORDER})
    gradient_checkpointing: Any = field(default=MISSING, metadata=FLAG | COST)
    official_gather: Any = field(default=False, metadata=FLAG)
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
class CommandConfig:
    """What a command does with a configuration; no part of a run, whose folder does not store it.

    Attributes:
        trust: Whether a run that is resumed may ask for anything; see `config.trust`.
        traceback: Whether errors show their stack traces.
        resume: Folder of the run to resume.
        plan: With a sweep, list its jobs and start none: a card, or true for this machine.
    """

    trust: bool = field(default=False, metadata=NOTHING)
    traceback: bool = field(default=False, metadata=NOTHING)
    resume: str | None = field(default=None, metadata=NOTHING)
    plan: Any = field(default=None, metadata=NOTHING)


COMMAND = tuple(setting.name for setting in fields(CommandConfig))


@dataclass
class TrainConfig(CommandConfig):
    """Configuration of `python train.py`."""

    name: str = field(default=MISSING, metadata=NOTHING)
    seed: int = _that(SEED)
    data_root: str = field(default=MISSING, metadata=NOTHING)
    senteval_text: str = _one_of(SentEvalText)
    dev: str = _one_of(DevSet, **DEV)
    path: Any = None
    precision: str = _one_of(TrainPrecision)
    papers: str | None = field(default=None, metadata=NOTHING)  # a name of other settings
    init_from: str | None = None
    model: Any = field(default=MISSING, metadata={"group": "one"})
    prompt: PromptConfig = field(default_factory=PromptConfig)
    loss: Any = field(default=MISSING, metadata={"group": "one"})
    regularizer: Any = field(default=None, metadata={"group": "optional"})
    auxiliary: Any = field(default=None, metadata={"group": "optional"})
    data: Any = field(default=MISSING, metadata={"group": "one"})
    optim: OptimConfig = field(default_factory=OptimConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    logger: dict[str, Any] = field(default_factory=dict, metadata={"group": "named", **NOTHING})
    callbacks: dict[str, Any] = field(default_factory=dict, metadata={"group": "named"})


@dataclass
class EvalConfig:
    """Configuration of `python eval.py`."""

    trust: bool = field(default=False, metadata=NOTHING)
    traceback: bool = field(default=False, metadata=NOTHING)
    ckpt: str | None = None
    step: int | None = None
    data_root: str = field(default=MISSING, metadata=NOTHING)
    senteval_text: str | None = _one_of_or_none(SentEvalText)
    suite: str = _one_of(Suite)
    tasks: list[str] | None = None
    test: Any = None
    sentence1: str = "sentence1"
    sentence2: str = "sentence2"
    score: str = "score"
    score_range: list[float] | None = None
    folds: int = MISSING
    classifier: str = _one_of(Classifier)
    normalize: Any = field(default=MISSING, metadata=FLAG)
    rank: Any = field(default=False, metadata=FLAG)
    dims: list[int] = field(default_factory=list, metadata={"must": AT_LEAST_1})
    vectors: list[str] = field(default_factory=lambda: ["float32"], metadata={"must": STORED_AS})
    aggregate: str = _one_of(Aggregate)
    precision: str | None = _one_of_or_none(EvalPrecision)
    text_edit: str | None = _one_of_or_none(TextEdit)
    max_length: int | None = None
    quantization: str | None = _one_of_or_none(Quantization)
    accelerator: str = _one_of(Accelerator)
    cache_dir: str | None = field(default=None, metadata=NOTHING)
    model: Any = field(default=MISSING, metadata={"group": "one"})
    prompt: PromptConfig = field(default_factory=PromptConfig)


def register_schemas() -> None:
    """Register schemas for Hydra's defaults lists."""
    store = ConfigStore.instance()
    store.store(name="train_schema", node=TrainConfig)
    store.store(name="eval_schema", node=EvalConfig)
