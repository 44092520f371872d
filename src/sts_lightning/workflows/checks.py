"""Everything that is wrong with a training run as a whole, found before weights are loaded or files written.

Arguments are checked by the class that takes them, values and types by `config.check`. Here are the
combinations that would train something else than they say, or lose hours or results.
"""

from __future__ import annotations

import inspect
import logging
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, get_args

from hydra.utils import get_class, get_method
from lightning.pytorch.callbacks import Callback, EarlyStopping
from lightning.pytorch.loggers import Logger
from omegaconf import DictConfig, OmegaConf
from torch import nn

from sts_lightning.config.build import build, items, shared_settings
from sts_lightning.config.check import (
    check_config,
    data_arguments,
    path_override,
    reject,
    suggest,
    unknown_key,
)
from sts_lightning.config.folders import PACKAGED
from sts_lightning.core.choices import Role
from sts_lightning.core.errors import CheckpointError, ConfigError, counted
from sts_lightning.core.hardware import Machine, cuda_devices, decide
from sts_lightning.data.data_set import DataSet
from sts_lightning.data.draws import empty_places
from sts_lightning.data.module import DataModule
from sts_lightning.data.ranking import Ranking
from sts_lightning.data.tables import SCORE_RANGE, values_of
from sts_lightning.losses import all_losses
from sts_lightning.losses.base import LABEL_WORDS, Loss, accepts, check_declared
from sts_lightning.models.text.template import SLOT
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import check_links
from sts_lightning.training.assembly import Parts, assemble
from sts_lightning.training.callbacks.history import HistoryLogger

log = logging.getLogger(__name__)

TRAINER_EXTRA = ("benchmark", "detect_anomaly", "inference_mode", "max_time", "profiler")
"""Arguments of Lightning's Trainer that a run may set besides the settings of the group ``trainer``."""

LOGGERS = {"comet": "comet_ml", "mlflow": "mlflow", "wandb": "wandb"}
"""Modules that loggers need, by the name of their extra, which is that of their setting too."""

SMALLER_BATCHES = "set data.batch_size instead (trainer.chunk_tokens bounds the memory)"
CALLBACKS = {
    "GradientAccumulationScheduler": f"adds up the losses of small batches; {SMALLER_BATCHES}",
    "BatchSizeFinder": f"changes the loss with the batch; {SMALLER_BATCHES}",
    "StochasticWeightAveraging": (
        "puts its average in place after the last dev evaluation; use callbacks=ema or trainer.wise_ft"
    ),
    "LearningRateFinder": "trains before the run; sweep the rate instead: -m optim.lr=2e-5,5e-5,1e-4",
}
"""Callbacks of Lightning's that would change the loss or the selection unnoticed, and what to do instead."""

TRAIN_METRICS = ("train/loss", "train/regularizer")
"""Metrics of the training that may end it."""


def check_folder(run: RunFolder) -> None:
    """Reject a folder in which a run cannot go on; see `check_links` and `check_checkpoints`."""
    if run.state != "new":
        check_links(run.path)
    if run.state in ("interrupted", "finished"):  # a finished one is trained further from its last checkpoint
        check_checkpoints(run)


def check_parts(parts: Parts) -> None:
    """Reject parts that do not fit together, all that is wrong at once.

    Raises:
        ConfigError: Some do not.
    """
    check_fit(parts.loss, parts.data, parts.cfg.data)
    reject(conflicts(parts))


def conflicts(parts: Parts) -> list[ConfigError]:
    """Return an error for each combination that would train something else than it says."""
    return [error for check in CHECKS for error in check(parts)]


def check_rows(parts: Parts) -> None:
    """Read the data, and reject what its rows do not fit.

    Raises:
        UserError: The data cannot be read, or does not fit.
    """
    parts.data.setup()
    check_scores(parts.loss, parts.data)
    check_masks(parts.loss, parts.data)
    check_watched(parts)


def make_loggers(run: RunFolder, cfg: DictConfig) -> list[Logger]:
    """Build the loggers of a run that can start: MLflow's constructor writes, and Comet's calls its server.

    Args:
        run: The run folder, which exists.
        cfg: A configuration without interpolations.

    Raises:
        ConfigError: A constructor rejects its settings.
    """
    loggers = []
    for key, node in items(cfg.logger):
        target = get_method(node["_target_"])
        taken = inspect.signature(target).parameters
        given: dict[str, Any] = {}
        if "save_dir" in taken and node.get("save_dir") is None:
            given["save_dir"] = str(run.path)
        elif target is HistoryLogger:  # its file is what the report and a resumed run read
            path = f"logger.{key}.save_dir"
            raise ConfigError(
                f"{path}: history.csv stays in the run folder.",
                key=path,
                hint="Leave it out, or add a logger: '+logger.mine={_target_: "
                "lightning.pytorch.loggers.CSVLogger, save_dir: FOLDER}'.",
            )
        # MLflow keeps nothing in a folder any more. Its default is what MLFLOW_TRACKING_URI says.
        if "tracking_uri" in taken and not (node.get("tracking_uri") or taken["tracking_uri"].default):
            given["tracking_uri"] = f"sqlite:///{run.path.absolute()}/mlflow.db"
        loggers.append(build(f"logger.{key}", node, Logger, **given))
    return loggers


def check_later_run(run: RunFolder, cfg: DictConfig, read: set[str]) -> str | None:
    """Check a run that need not run now, or on this machine: nothing is locked, written or loaded.

    Args:
        run: Its folder, which need not exist.
        cfg: Its composed configuration.
        read: Settings of the data that earlier checks have read; they are not read again.

    Returns:
        What this machine lacks for the run; None if it lacks nothing.

    Raises:
        UserError: Configuration, data or checkpoint cannot be used.
    """
    check_folder(run)
    parts = assemble(check_config(cfg), "meta")
    check_parts(parts)
    key = f"{OmegaConf.to_yaml(parts.cfg.data)}{shared_settings(parts.cfg)}"
    if key not in read:
        check_rows(parts)
        read.add(key)
    try:
        check_machine(decide(parts.cfg))
    except ConfigError as error:
        return str(error)
    return None


def _loggers(parts: Parts) -> Iterator[ConfigError]:
    for key in sorted(LOGGERS.keys() & parts.cfg.logger.keys()):
        if find_spec(LOGGERS[key]) is None:
            yield ConfigError(
                f"logger.{key} needs a package that is not installed.",
                key=f"logger.{key}",
                hint=f"pip install 'sts-lightning[{key}]'",
            )


def _callbacks(parts: Parts) -> Iterator[ConfigError]:
    for key, callback in zip(parts.cfg.callbacks, parts.callbacks, strict=True):
        if (cls := type(callback).__name__) in CALLBACKS:
            yield ConfigError(f"callbacks.{key}: {cls} {CALLBACKS[cls]}.", key=f"callbacks.{key}")


def _trainer_extra(parts: Parts) -> Iterator[ConfigError]:
    for key in map(str, parts.cfg.trainer.extra):
        if key not in TRAINER_EXTRA:
            yield unknown_key(f"trainer.extra.{key}", f"There are: {', '.join(TRAINER_EXTRA)}.")


def _unread_data_settings(parts: Parts) -> Iterator[ConfigError]:
    cfg, arguments = parts.cfg, data_arguments(parts.cfg)
    if cfg.path is not None and "path" not in arguments:
        hint = (
            "Add data=pairs_file, triplets_file, labels_file, classes_file or sentences_file for a file, "
            "pairs_hub or triplets_hub for a data set of the hub."
        )
        yield ConfigError(f"path={cfg.path} has no effect on this data.", key="path", hint=hint)
    if cfg.dev != "stsb" and "dev" not in arguments:
        text = f"dev={cfg.dev} has no effect on this data, which has its own dev pairs."
        yield ConfigError(text, key="dev")


def _repeated_template(parts: Parts) -> Iterator[ConfigError]:
    views = [view for part in parts.data.parts.values() for view in part.views]
    if parts.cfg.prompt.template is not None and any(view.augmentation is not None for view in views):
        text = "data.repetition would repeat words of the template; use prompt=none."
        yield ConfigError(text, key="data.repetition")


def _weights(parts: Parts) -> Iterator[ConfigError]:
    cfg, name = parts.cfg, type(parts.loss).__name__
    adapter, trained = cfg.model.get("adapter"), cfg.optim.freeze == "none"
    for key, usual in (("dtype", "float32"), ("quantization", "none")):
        if adapter is None and trained and (value := cfg.model.get(key, usual)) not in (usual, "auto"):
            yield ConfigError(
                f"model.{key}={value}: weights that train have to be float32; give the model an adapter "
                f"(model.adapter, as in conf/model/mistral7b.yaml), or set model.{key}={usual}.",
                key=f"model.{key}",
            )
    if cfg.trainer.wise_ft and adapter is not None:
        yield ConfigError(
            "trainer.wise_ft averages weights, but model.adapter trains factors of them, and the mean of "
            "factors is not that of their products.",
            key="trainer.wise_ft",
        )
    if not trained and not has_head(parts.loss):
        yield ConfigError(
            f"optim.freeze={cfg.optim.freeze} leaves nothing to train: {name} has no head. "
            "Set optim.freeze=none, or choose a loss with a head.",
            key="optim.freeze",
        )


def _regularizer(parts: Parts) -> Iterator[ConfigError]:
    regularizer = parts.regularizer
    if regularizer is None:
        return
    fewest = min(len(part.views) for part in parts.data.parts.values())
    if fewest < regularizer.least_views:
        yield ConfigError(
            f"regularizer: {type(regularizer).__name__} reads {regularizer.least_views} views with these "
            f"settings, and this data gives {fewest}.",
            key="regularizer",
        )
    if regularizer.needs_phases:
        from sts_lightning.training.callbacks.rank_monitor import RankMonitor  # of few runs

        if not any(isinstance(callback, RankMonitor) for callback in parts.callbacks):
            text = "regularizer.phase1 and phase2 differ, so the switch has to be found"
            yield ConfigError(f"{text}: add callbacks=rank_monitor.", key="regularizer")


def _auxiliary(parts: Parts) -> Iterator[ConfigError]:
    loss, name = parts.loss, type(parts.loss).__name__
    supplied = None if parts.auxiliary is None else parts.auxiliary.provides
    if supplied is not None and supplied not in loss.takes:
        able = ", ".join(stem for stem, other in all_losses().items() if supplied in other.takes)
        text = f"auxiliary: {name} takes no {supplied}. Losses that do: {able or 'none'}."
        yield ConfigError(text, key="auxiliary")
    for argument in sorted(set(loss.requires) - {supplied}):
        yield ConfigError(
            f"{name} needs an auxiliary model that provides {argument}.",
            key="auxiliary",
            hint=f"Add auxiliary={' or '.join(_providers(argument))}, or an experiment that has it.",
        )


def _prompts(parts: Parts) -> Iterator[ConfigError]:
    """Yield an error for prompts by role without queries and documents, and for view templates like them."""
    cfg, data = parts.cfg, parts.data
    rows = any(part.is_rows for part in data.parts.values())
    given = [role for role in get_args(Role) if cfg.prompt.get(role) is not None]
    if given and not rows:
        role, scored = given[0], any(part.label != "none" for part in data.parts.values())
        pairs = "scored pairs" if scored else "views of one sentence"
        yield ConfigError(
            f"prompt.{role}: {pairs} are compared in both directions; use prompt.template.",
            key=f"prompt.{role}",
        )
    first, *others = cfg.prompt.get("view_templates") or [""]
    same = len(set(others)) == 1 and all(text.endswith(SLOT) for text in (first, *others))
    if rows and same:
        prompts = [("prompt.query", first), ("prompt.document", others[0])]
        typed = " ".join(shlex.quote(path_override(key, text.removesuffix(SLOT))) for key, text in prompts)
        yield ConfigError(
            "prompt.view_templates is for views of the same sentence; these are prompts of queries and "
            "documents, which belong to the encoder.",
            key="prompt.view_templates",
            hint=f"Type {typed} instead.",
        )


CHECKS: tuple[Callable[[Parts], Iterator[ConfigError]], ...] = (
    _loggers,
    _callbacks,
    _trainer_extra,
    _unread_data_settings,
    _repeated_template,
    _prompts,
    _weights,
    _regularizer,
    _auxiliary,
)
"""Combinations that would train something else than they say; each yields an error for one."""


def _providers(argument: str) -> list[str]:
    """Return the choices of ``auxiliary`` that supply an argument of a loss."""
    files = sorted((PACKAGED / "auxiliary").iterdir())
    targets = {path.stem: OmegaConf.select(OmegaConf.load(path), "_target_") for path in files}
    classes = {choice: get_class(target) for choice, target in targets.items() if target}
    return [choice for choice, cls in classes.items() if getattr(cls, "provides", None) == argument]


def without_effect(cfg: DictConfig, loss: Loss) -> list[str]:
    """Return a sentence for each setting that another makes useless: its key, neutral value, and why.

    Args:
        cfg: A configuration without interpolations.
        loss: Its loss.
    """
    frozen = cfg.optim.freeze != "none"
    listmle, mse = cfg.loss.get("distillation") == "listmle", cfg.loss.get("comparison") == "mse"
    rules: list[tuple[str, object, bool, str]] = [
        ("trainer.init", "best", cfg.init_from is None, "init_from=null"),
        ("optim.head_lr", None, not has_head(loss), f"{type(loss).__name__}, which has no head"),
        ("regularizer", None, frozen, f"optim.freeze={cfg.optim.freeze}"),
        ("trainer.wise_ft", [], frozen, f"optim.freeze={cfg.optim.freeze}"),
        ("optim.layer_decay", 1.0, frozen, f"optim.freeze={cfg.optim.freeze}"),
        ("evaluation.rank", False, not cfg.evaluation.final, "evaluation.final=false"),
        ("loss.teacher_temperature", 0.025, listmle, "distillation=listmle"),
        ("loss.teacher_temperature", 0.05, mse, "comparison=mse"),
        ("loss.temperature", 0.05, mse, "comparison=mse"),
    ]
    return [
        f"{key} has no effect with {why}."
        for key, neutral, useless, why in rules
        if useless and (value := OmegaConf.select(cfg, key)) and value != neutral
    ]


def has_head(loss: Loss) -> bool:
    """Return whether a loss has weights of its own."""
    return any(True for _ in loss.parameters())


def check_fit(loss: Loss, data: DataModule, settings: Mapping[str, Any] = {}) -> None:
    """Reject a loss that cannot use the data.

    Args:
        loss: The loss.
        data: The data.
        settings: The group ``data``, for hints.

    Raises:
        ConfigError: Views or labels do not fit; the message lists the losses that do. Or the batches are too
            small, or the loss does not declare what it accepts.
    """
    check_declared(loss)
    for name, each in losses_by_part(loss, data).items():
        below = f".parts.{name}" if each is not loss else ""
        part, size = data.parts[name], data.batch_sizes[name]
        own = settings.get("parts", {}).get(name, {}) if name else settings
        if not fits(each, part):
            where, have = (
                f" ({name})" if name else "",
                f"{len(part.views)} views and {LABEL_WORDS[part.label]}",
            )
            others = [stem for stem, other in all_losses().items() if fits(other, part)]
            raise ConfigError(
                f"{type(each).__name__} needs {each.needs()}, but this data{where} gives {have}. "
                f"Losses that fit this data: {', '.join(others) or 'none'}.",
                key=f"loss{below}",
                hint=_other_data(each, part, own),
            )
        if size < each.least_batch:
            key = f"data.parts.{name}.batch_size" if name else "data.batch_size"
            raise ConfigError(
                f"{type(each).__name__} compares nothing in a batch of {size}; with these "
                f"settings {key} must be at least {each.least_batch}.",
                key=key,
            )


def losses_by_part(loss: Loss, data: DataModule) -> dict[str, Loss]:
    """Return the loss of each part of the data; a loss without parts is that of all.

    Raises:
        ConfigError: The loss has other parts than the data.
    """
    losses = getattr(loss, "parts", None)
    if not isinstance(losses, nn.ModuleDict):
        return dict.fromkeys(data.parts, loss)
    if set(losses.keys()) != set(data.parts):
        known = ", ".join(data.data_set.parts)
        raise ConfigError(
            f"loss.parts has losses for {', '.join(losses)}, but this data has "
            f"{f'the parts {known}' if known else 'no parts'}.",
            key="loss.parts",
            hint=None if known else "Add data=joint with data.parts, or choose another loss.",
        )
    return {
        name: each for name, each in losses.items() if isinstance(each, Loss)
    }  # all are: for the type checker


def fits(loss: Loss | type[Loss], data: DataSet) -> bool:
    """Return whether a loss can use the views and the label of the data."""
    return accepts(loss, len(data.views)) and data.label in loss.labels


def _other_data(loss: Loss, data: DataSet, settings: Mapping[str, Any]) -> str | None:
    """Return how to read pairs with a score as positives, positives with a score, or triplets as pairs."""
    if "score" in loss.labels and data.label == "none" and accepts(loss, 2):
        if settings.get("positives_from") is not None:
            return "It reads all pairs with their scores without data.positives_from."
        return "Pairs with a score are read by data=pairs_file."
    if "none" in loss.labels and data.label == "score" and accepts(loss, 2):
        triplets = "data=triplets_file reads pairs and triplets without a score."
        if "positives_from" not in settings:
            return triplets
        low, high = settings.get("score_range") or SCORE_RANGE
        similar = low + 0.8 * (high - low)
        return f"To train it on the similar pairs alone: data.positives_from={similar:g}; {triplets}"
    if "none" in loss.labels and data.label == "none" and accepts(loss, 2) and "negatives" in settings:
        return "Without hard negatives: data.negatives=0."
    return None


def check_scores(loss: Loss, data: DataModule) -> None:
    """Reject training scores that are all equal, for a loss that compares them and so would have no gradient.

    Args:
        loss: The loss.
        data: Data that has been read.

    Raises:
        ConfigError: All scores are equal.
    """
    for name, each in losses_by_part(loss, data).items():
        scored = data.parts[name].label == "score" and each.compares
        labels = values_of(data.splits[name].train, "label") if scored else []
        if not labels or min(labels) < max(labels):
            continue
        raise ConfigError(
            f"{type(each).__name__} compares scores, but all {len(labels):,} training pairs have the score "
            f"{data.source_score(labels[0], name):g}.",
            key="loss",
            hint="loss=cosine_mse does not compare them.",
        )


def check_masks(loss: Loss, data: DataModule) -> None:
    """Reject a loss that would count empty places of hard negatives, or a text of the class as a negative.

    Args:
        loss: The loss.
        data: Data that has been read.

    Raises:
        ConfigError: It would; the message says what does not.
    """
    for name, each in losses_by_part(loss, data).items():
        part, where = data.parts[name], f"data.parts.{name}" if name else "data"
        empty = empty_places(part, data.splits[name].train)
        for inner in each.modules():
            if not isinstance(inner, Loss) or sum(isinstance(m, Loss) for m in inner.modules()) > 1:
                continue  # what is around a loss hands the numbers on
            if part.classes and getattr(inner, "mask_repeats", True) is False:
                raise ConfigError(
                    f"{type(inner).__name__} would count texts of a class as negatives of each other.",
                    key="loss.mask_repeats",
                    hint="Leave out mask_repeats=false.",
                )
            masks = getattr(inner, "mask_repeats", "sentence_ids" in inner.takes)
            if empty and (not masks or "masked_lm" in each.requires):
                raise ConfigError(
                    f"{type(each).__name__} would count {counted(empty, 'empty place')} of rows with fewer "
                    f"hard negatives than {len(part.views) - 2}.",
                    key="loss",
                    hint=f"Choose a loss that leaves them out, such as loss=infonce (without "
                    f"mask_repeats=false), or set {where}.negatives=0.",
                )


def check_watched(parts: Parts) -> None:
    """Reject a `RankMonitor`, which measures scored dev pairs, on held-out queries.

    Raises:
        ConfigError: There is one.
    """
    if not parts.callbacks or not isinstance(parts.data.dev, Ranking):
        return
    from sts_lightning.training.callbacks.rank_monitor import RankMonitor  # of few runs

    for name, callback in zip(parts.cfg.callbacks, parts.callbacks, strict=True):
        if isinstance(callback, RankMonitor):
            raise ConfigError(
                f"callbacks.{name} needs scored dev pairs, and queries select the weights of this run.",
                key=f"callbacks.{name}",
                hint="Type data.dev_fraction=0 for STS-B dev, or data.dev_path=FILE with scored pairs.",
            )


def check_machine(machine: Machine) -> None:
    """Reject settings that this machine cannot run, or that Lightning would replace."""
    gpus = cuda_devices() if machine.accelerator == "gpu" else 0
    if machine.devices > gpus > 0 or (machine.devices == -1 and not gpus):
        raise ConfigError(
            f"trainer.devices={machine.devices}, but {gpus} CUDA devices are used here.",
            key="trainer.devices",
            hint="-1 means all GPUs; without any give the number of processes.",
        )
    if machine.accelerator != "gpu" and machine.precision == "16-mixed":
        raise ConfigError(
            "precision=16-mixed needs a CUDA device; elsewhere use bf16-mixed or 32-true.", key="precision"
        )


def check_monitors(cfg: DictConfig, callbacks: Sequence[Callback], measured: Iterable[str]) -> None:
    """Reject early stopping by a metric that does not exist; Lightning finds that at the first evaluation.

    Args:
        cfg: Configuration of the run.
        callbacks: Its callbacks, in the order of the configuration; then others.
        measured: Metrics of the dev evaluation before training.
    """
    known = [*sorted(key for key in measured if key.startswith("dev/")), *TRAIN_METRICS]
    for name, callback in zip(cfg.callbacks, callbacks, strict=False):
        if isinstance(callback, EarlyStopping) and callback.monitor not in known:
            raise ConfigError(
                f"callbacks.{name}.monitor={callback.monitor} is not measured where early stopping decides.",
                key=f"callbacks.{name}.monitor",
                hint=suggest(str(callback.monitor), known) or f"There are: {', '.join(known)}.",
            )


def check_checkpoints(run: RunFolder) -> None:
    """Reject a run whose checkpoints are damaged, before hours of training lead up to the first use of one.

    Raises:
        CheckpointError: One is; the message says how the run starts again.
    """
    best = run.checkpoint("best")
    try:
        last = run.read_checkpoint("last")
        states = [state for state in last.get("callbacks", {}).values() if isinstance(state, dict)]
        if any(state.get("best_model_path") for state in states):  # there has been a dev evaluation
            if not best.is_file():
                raise CheckpointError(f"{best} does not exist any more.")
            run.read_checkpoint("best")
    except CheckpointError as error:
        raise CheckpointError(
            f"{error} The run cannot be resumed without it: restore it from a copy, or remove "
            f"{RunFolder(run.checkpoints).name} to start the run again from the beginning with the same "
            "command."
        ) from error
