"""The schema of the configuration: each setting with its type, its range and what it affects.

YAML in conf/ holds the values. A new setting is one line here, and its value there if it has no default:
``every: Annotated[int, Ge(1), COST]``. Hydra composes the dataclass `Settings.structured` of a model, and
`config.check` validates what it has composed. Of `Component` the arguments are checked against the signature
of what it names.
"""

from __future__ import annotations

from dataclasses import dataclass, field, make_dataclass
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Len, Lt, MaxLen, MultipleOf
from hydra.core.config_store import ConfigStore
from omegaconf import MISSING
from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

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

DEV, ORDER, COST, NOTHING = get_args(Affects)[1:]

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
    "sts_lightning.papers.rank_monitor.RankMonitor",
    "lightning.pytorch.callbacks.DeviceStatsMonitor",
    "lightning.pytorch.callbacks.LearningRateMonitor",
)
"""Callbacks that record a run and change nothing in it."""


def affects(setting: FieldInfo) -> Affects:
    """Return what a field of a model affects."""
    return next((mark for mark in setting.metadata if mark in get_args(Affects)), "result")


@dataclass(frozen=True)
class Must:
    """What a value must be, in place of pydantic's words."""

    words: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(handler(source), "must", custom_error_message=self.words)


Seed = Annotated[int, Ge(0), Lt(2**32)]  # NumPy's range

Positive = Annotated[float, Gt(0)]

Fraction = Annotated[float, Ge(0), Lt(1)]

Count = Annotated[int, Ge(1)]

Limit = Count | None

Length = Count | Literal[-1] | None

# 1.0 may be meant as all of a run or an epoch; as a number of steps it would be one.
Steps = Count | Annotated[float, Gt(1), MultipleOf(1)]

Warmup = Annotated[
    Fraction | Steps,
    Must("it must be a fraction of the run in [0, 1), or a whole number of steps (1: one step)"),
]

Every = Annotated[
    Annotated[float, Gt(0), Lt(1)] | Steps | None,
    Must(
        "it must be a fraction of an epoch below 1 or a whole number of steps (1: each step), or null: once "
        "per epoch"
    ),
]


class Settings(BaseModel):
    """A group of settings.

    Attributes:
        structured: Dataclass of the same settings for OmegaConf.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, allow_inf_nan=False, str_strip_whitespace=True, str_min_length=1
    )

    structured: ClassVar[type[Any]]

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        fields: list[Any] = []
        for name, setting in cls.model_fields.items():
            type_ = composed_type(setting.annotation)
            default: Any = partial(setting.get_default, call_default_factory=True)
            if setting.is_required():
                default = type_ if hasattr(type_, "settings") else lambda: MISSING
            fields.append((name, type_, field(default_factory=default)))
        place = {"__module__": cls.__module__, "__qualname__": f"{cls.__qualname__}.structured"}  # for pickle
        cls.structured = make_dataclass(cls.__name__, fields, namespace={"settings": cls, **place})


def composed_type(hint: Any) -> Any:
    """Return the type of a setting for OmegaConf; Any for several, and for what it would convert to true."""
    origin, of = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return composed_type(of[0])
    if origin is Literal:
        return composed_type(Union[tuple(map(type, of))])  # noqa: UP007
    if origin in (Union, UnionType):
        types = {composed_type(each) for each in of}
        return Any if Any in types or len(types - {NoneType}) > 1 else Union[tuple(types)]  # noqa: UP007
    if of:
        return origin[tuple(map(composed_type, of))]
    return Any if hint is bool else getattr(hint, "structured", hint)


class Named(BaseModel):
    """Class or function, and its arguments."""

    model_config = ConfigDict(extra="allow", strict=True)

    structured: ClassVar[Any] = Any

    target: str = Field(alias="_target_")


BUILT = Must("it has no _target_; choose it by name, among the files of its group")

Component = Annotated[Named, BUILT]

OptionalComponent = Annotated[Named | Annotated[dict[str, Any], MaxLen(0)] | None, BUILT]


class PromptConfig(Settings):
    """Template around each sentence, prefixes of queries and documents, and how a vector is pooled."""

    template: str | None = None
    query: str | None = None
    document: str | None = None
    view_templates: list[str] | None = None
    denoise: Denoise
    denoise_evaluation: bool
    pooling: str | None = None
    layer: int


class OptimConfig(Settings):
    """Settings of AdamW and its schedule.

    Attributes:
        decay_embeddings: Whether ``layer_decay`` applies to the embeddings; not in STS-Regression's code.
        stretch: The schedule is that of a run this many times as long, within which the run ends.
    """

    freeze: Frozen
    lr: Positive
    head_lr: Positive | None = None
    weight_decay: Annotated[float, Ge(0)]
    layer_decay: Annotated[float, Gt(0), Le(1)]
    decay_embeddings: bool = True
    betas: Annotated[list[Fraction], Len(2, 2)]
    eps: Positive
    schedule: Schedule
    warmup: Warmup
    stretch: Annotated[float, Ge(1)] = 1.0


class TrainerConfig(Settings):
    """Settings of Lightning's Trainer.

    Attributes:
        keep_state: Whether a finished run keeps its state, so that it can be trained further.
    """

    accelerator: Accelerator
    cpu_fallback: Annotated[bool, COST]
    devices: Annotated[Count | Literal[-1], ORDER]
    num_nodes: Annotated[Count, ORDER]
    init: Init
    max_epochs: Length = None
    max_steps: Length = None
    limit_train_batches: Limit = None
    val_every: Every = None
    save_every: Annotated[Count, NOTHING]
    keep_every: Annotated[Limit, NOTHING] = None
    keep_state: Annotated[bool, NOTHING] = False
    select_untuned: bool = False
    wise_ft: list[Annotated[float, Ge(0), Le(1)]] = []
    # PyTorch multiplies a gradient that is too long by limit / norm: a negative limit would reverse it.
    gradient_clip_val: Positive | None = None
    log_every_n_steps: Annotated[Count, NOTHING]
    deterministic: Deterministic
    chunk_tokens: Annotated[Count | Literal["auto"], ORDER]
    launch_tokens: Annotated[Annotated[int, Ge(0)] | Literal["auto"], ORDER] = "auto"
    micro_batch_size: Annotated[Count | Literal["auto"] | None, ORDER] = None
    gradient_checkpointing: Annotated[bool, COST]
    extra: dict[str, Any] = {}


class EvaluationConfig(Settings):
    """Report on the test tasks at the end of training."""

    final: bool
    untuned: bool
    rank: bool = False
    aggregate: Aggregate
    precision: Precision | None = None
    text_edit: TextEdit
    max_length: int | None = None


class CommandConfig(Settings):
    """What a command does with a configuration; no part of a run, whose folder does not store it.

    Attributes:
        trust: Whether a run that is resumed may ask for anything; see `config.stored`.
        traceback: Whether errors show their stack traces.
        resume: Folder of the run to resume.
        plan: With a sweep, list its jobs and start none: a card, or true for this machine.
    """

    trust: Annotated[bool, NOTHING] = False
    traceback: Annotated[bool, NOTHING] = False
    resume: Annotated[str | None, NOTHING] = None
    plan: Annotated[str | bool | None, NOTHING] = None


COMMAND = tuple(CommandConfig.model_fields)


class TrainConfig(CommandConfig):
    """Configuration of `python train.py`."""

    name: Annotated[str, NOTHING]
    seed: Seed
    data_root: Annotated[str, NOTHING]
    senteval_text: SentEvalText
    dev: Annotated[DevSet, DEV]
    path: str | list[str] | dict[str, float] | None = None
    precision: TrainPrecision
    papers: Annotated[str | None, NOTHING] = None  # a name of other settings
    init_from: str | None = None
    model: Component
    prompt: PromptConfig
    loss: Component
    regularizer: OptionalComponent = None
    auxiliary: OptionalComponent = None
    data: Component
    optim: OptimConfig
    trainer: TrainerConfig
    evaluation: EvaluationConfig
    logger: Annotated[dict[str, Component], NOTHING] = {}
    callbacks: dict[str, Component] = {}


class EvalConfig(Settings):
    """Configuration of `python eval.py`."""

    traceback: Annotated[bool, NOTHING] = False
    ckpt: str | None = None
    step: int | None = None
    data_root: Annotated[str, NOTHING]
    senteval_text: SentEvalText | None = None
    suite: Suite
    tasks: list[str] | None = None
    test: str | list[str] | None = None
    sentence1: str = "sentence1"
    sentence2: str = "sentence2"
    score: str = "score"
    score_range: list[float] | None = None
    folds: int
    classifier: Classifier
    normalize: bool
    rank: bool = False
    dims: list[Count] = []
    vectors: list[StoredAs] = ["float32"]
    aggregate: Aggregate
    precision: EvalPrecision | None = None
    text_edit: TextEdit | None = None
    max_length: int | None = None
    quantization: Quantization | None = None
    accelerator: Accelerator
    cache_dir: Annotated[str | None, NOTHING] = None
    model: Component
    prompt: PromptConfig


def register_schemas() -> None:
    """Register schemas for Hydra's defaults lists."""
    store = ConfigStore.instance()
    store.store(name="train_schema", node=TrainConfig.structured)
    store.store(name="eval_schema", node=EvalConfig.structured)
