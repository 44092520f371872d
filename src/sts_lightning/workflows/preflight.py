"""Everything that is wrong with a training run as a whole, found before weights are loaded or files written.

Arguments are checked by the class that takes them, values and types by `config.check`. Here are the
combinations that would train something else than they say, or lose hours or results.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, get_args

from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.build import to_container, top_level_settings
from sts_lightning.config.check import check_config, data_arguments, flatten, reject, unknown_key
from sts_lightning.config.folders import files_of
from sts_lightning.config.identity import select
from sts_lightning.core.choices import Role
from sts_lightning.core.errors import CheckpointError, ConfigError, DataError, counted
from sts_lightning.core.hardware import Machine, cuda_devices, resolve_machine
from sts_lightning.data.data_set import DataSet
from sts_lightning.data.draws import empty_places
from sts_lightning.data.module import DataModule
from sts_lightning.data.sources import find_files, weighted
from sts_lightning.data.table import SCORE_RANGE
from sts_lightning.losses import all_losses
from sts_lightning.losses.base import FROM_BATCH, LABEL_WORDS, Loss, check_declared
from sts_lightning.losses.joint import JointLoss
from sts_lightning.models.text.template import SLOT
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import check_links
from sts_lightning.training.assembly import Components, assemble

log = logging.getLogger(__name__)

TRAINER_EXTRA = ("benchmark", "detect_anomaly", "inference_mode", "max_time", "profiler")
"""Arguments of Lightning's Trainer that a run may set besides the settings of the group ``trainer``."""

CALLBACKS = {
    "GradientAccumulationScheduler": "data.batch_size (trainer.chunk_tokens bounds the memory)",
    "BatchSizeFinder": "data.batch_size (trainer.chunk_tokens bounds the memory)",
    "StochasticWeightAveraging": "callbacks=ema or trainer.wise_ft",
    "LearningRateFinder": "a sweep over the rate, -m optim.lr=2e-5,5e-5,1e-4",
}
"""Callbacks of Lightning's that would change the loss or the selection unnoticed, and what to use instead."""


def check_folder(run: RunFolder) -> int | None:
    """Reject a folder in which a run cannot go on, before hours of training lead up to what is broken.

    Returns:
        Step of the checkpoint from which the run goes on; None if it starts from the beginning.

    Raises:
        CheckpointError: A checkpoint is damaged; the message says how the run starts again.
        UntrustedError: A file in it is a link to elsewhere.
    """
    if run.state == "new":
        return None
    check_links(run.path)
    if run.state == "started":
        return None
    try:
        last = run.read_checkpoint("last")
        states = [state for state in last.get("callbacks", {}).values() if isinstance(state, dict)]
        if any(state.get("best_model_score") is not None for state in states):  # after a dev evaluation
            run.read_checkpoint("best")
    except CheckpointError as error:
        raise CheckpointError(
            f"{error} The run cannot be resumed without it: restore it from a copy, or remove "
            f"{RunFolder(run.checkpoints).name} to start again from the beginning with the same command."
        ) from error
    return int(last["global_step"])


def check_components(components: Components) -> None:
    """Reject components that do not fit together, all that is wrong at once.

    Raises:
        ConfigError: Some do not.
    """
    check_fit(components.loss, components.data, components.cfg.data)
    reject(conflicts(components))


def conflicts(components: Components) -> list[ConfigError]:
    """Return an error for each combination that would train something else than it says."""
    return [error for check in CHECKS for error in check(components)]


def check_rows(components: Components, known: dict[str, Any] | None = None) -> None:
    """Read the data, and reject what its rows do not fit.

    Args:
        components: Those of the run.
        known: Data of earlier runs by their settings, which are not read again; those of this one are added.

    Raises:
        UserError: The data cannot be read, or does not fit.
    """
    if known is not None:
        settings = [
            {**components.cfg.data, "batch_size": None, "num_workers": None},
            top_level_settings(components.cfg),
        ]
        read = partial(once, known, components.data.data_set.read, settings)
        components.data.data_set = replace(components.data.data_set, read=read)
    components.data.setup()
    check_examples(components.loss, components.data)


def once(known: dict[str, Any], make: Callable[[], object], settings: object) -> Any:
    """Return what has been made of equal settings, or make it."""
    key = json.dumps(settings, default=OmegaConf.to_container)
    if key not in known:
        known[key] = make()
    return known[key]


def check_later_run(run: RunFolder, cfg: DictConfig, known: dict[str, Any]) -> str | None:
    """Check a run that need not run now, or on this machine: nothing is locked, written or loaded.

    Args:
        run: Its folder, which need not exist.
        cfg: Its composed configuration.
        known: See `check_rows`.

    Returns:
        What this machine lacks for the run; None if it lacks nothing.

    Raises:
        UserError: Configuration, data or checkpoint cannot be used.
    """
    check_folder(run)
    components = assemble(check_config(cfg), "meta")
    check_components(components)
    check_rows(components, known)
    try:
        check_machine(resolve_machine(components.cfg))
    except ConfigError as error:
        return str(error)
    return None


def _lightning(components: Components) -> Iterator[ConfigError]:
    for key, callback in zip(components.cfg.callbacks, components.callbacks, strict=True):
        if (cls := type(callback).__name__) in CALLBACKS:
            text = f"callbacks.{key}: {cls} would change the loss or the selection unnoticed"
            yield ConfigError(f"{text}; use {CALLBACKS[cls]}.", key=f"callbacks.{key}")
    for key in map(str, components.cfg.trainer.extra):
        if key not in TRAINER_EXTRA:
            yield unknown_key(f"trainer.extra.{key}", f"There are: {', '.join(TRAINER_EXTRA)}.")


def _unread_data_settings(components: Components) -> Iterator[ConfigError]:
    cfg, arguments = components.cfg, data_arguments(components.cfg)
    if cfg.path is not None and "path" not in arguments:
        hint = (
            "Add data=pairs_file, triplets_file, labels_file, classes_file or sentences_file for a file, "
            "pairs_hub or triplets_hub for a data set of the hub."
        )
        yield ConfigError(f"path={cfg.path} has no effect on this data.", key="path", hint=hint)
    if cfg.dev != "stsb" and "dev" not in arguments:
        yield ConfigError(f"dev={cfg.dev} has no effect on this data: its dev pairs are its own.", key="dev")


def _weights(components: Components) -> Iterator[ConfigError]:
    cfg, adapter, name = components.cfg, components.cfg.model.get("adapter"), type(components.loss).__name__
    trained = cfg.optim.freeze == "none"
    for key in ("dtype", "quantization"):
        value = cfg.model.get(key, "auto")
        if adapter is None and trained and value not in ("auto", "float32", "none"):
            text = f"model.{key}={value}: weights that train have to be float32; give the model an adapter"
            example = "(model.adapter, as in conf/model/mistral7b.yaml)"
            yield ConfigError(f"{text} {example}, or leave model.{key} out.", key=f"model.{key}")
    if cfg.trainer.wise_ft and adapter is not None:
        text = "trainer.wise_ft: the mean of an adapter's factors is not that of their products."
        yield ConfigError(text, key="trainer.wise_ft")
    if not trained and not has_head(components.loss):
        text = f"optim.freeze={cfg.optim.freeze} leaves nothing to train: {name} has no head."
        hint = "Set optim.freeze=none, or choose a loss with a head."
        yield ConfigError(text, key="optim.freeze", hint=hint)


def _regularizer(components: Components) -> Iterator[ConfigError]:
    regularizer = components.regularizer
    if regularizer is None:
        return
    if (freeze := components.cfg.optim.freeze) != "none":
        text = f"regularizer: the encoder that it regularises is frozen (optim.freeze={freeze})."
        yield ConfigError(text, key="regularizer")
    fewest = min(len(part.views) for part in components.data.parts.values())
    if fewest < regularizer.least_views:
        text = f"{type(regularizer).__name__} reads {regularizer.least_views} views with these settings"
        yield ConfigError(f"regularizer: {text}, and this data gives {fewest}.", key="regularizer")
    switched = any(getattr(callback, "switches_phases", False) for callback in components.callbacks)
    if regularizer.needs_phases and not switched:
        text = "regularizer.phase1 and phase2 differ, so the switch has to be found"
        yield ConfigError(f"{text}: add callbacks=rank_monitor.", key="regularizer")


def _auxiliary(components: Components) -> Iterator[ConfigError]:
    loss, name = components.loss, type(components.loss).__name__
    supplied = None if components.auxiliary is None else components.auxiliary.provides
    if supplied is not None and supplied not in loss.needs.inputs:
        able = ", ".join(stem for stem, other in all_losses().items() if supplied in other.needs.inputs)
        text = f"auxiliary: {name} takes no {supplied}. Losses that do: {able or 'none'}."
        yield ConfigError(text, key="auxiliary")
    for argument in sorted(set(loss.needs.required_inputs) - {supplied, *FROM_BATCH}):
        text = f"{name} needs an auxiliary model that provides {argument}."
        hint = f"Choose auxiliary={', '.join(files_of('auxiliary'))}, or an experiment that has it."
        yield ConfigError(text, key="auxiliary", hint=hint)


def _prompts(components: Components) -> Iterator[ConfigError]:
    """Yield an error for prompts by role without queries and documents, and for view templates like them."""
    prompt, data = components.cfg.prompt, components.data.parts.values()
    if prompt.template is not None and any(view.augmentation for part in data for view in part.views):
        text = "data.repetition would repeat words of the template; use prompt=none."
        yield ConfigError(text, key="data.repetition")
    rows = any(part.is_rows for part in data)
    for key in (f"prompt.{role}" for role in get_args(Role) if prompt.get(role) is not None and not rows):
        text = "scored pairs and views of one sentence are compared in both directions; use prompt.template."
        yield ConfigError(f"{key}: {text}", key=key)
    templates = prompt.get("view_templates") or []
    if rows and len(set(templates[1:])) == 1 and all(text.endswith(SLOT) for text in templates):
        yield ConfigError(
            "prompt.view_templates is for views of the same sentence; these are prompts of queries and "
            "documents, which belong to the encoder.",
            key="prompt.view_templates",
            hint="Type prompt.query=... and prompt.document=... instead.",
        )


CHECKS = (_lightning, _unread_data_settings, _prompts, _weights, _regularizer, _auxiliary)
"""Combinations that would train something else than they say; each yields an error for one."""


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
        part, size, place = data.parts[name], data.batch_sizes[name], f".parts.{name}" if name else ""
        if not fits(each, part):
            here = f"this data{f' ({name})' if name else ''}"
            others = [stem for stem, other in all_losses().items() if fits(other, part)]
            raise ConfigError(
                f"{type(each).__name__} needs {each.needs}, but {here} gives {len(part.views)} views and "
                f"{LABEL_WORDS[part.label]}. Losses that fit this data: {', '.join(others) or 'none'}.",
                key="loss" if each is loss else f"loss{place}",
                hint=_other_data(each, part, settings.get("parts", {}).get(name, settings)),
            )
        if size < each.needs.min_batch_for_gradient:
            key = f"data{place}.batch_size"
            text = f"{type(each).__name__} compares nothing in a batch of {size}; with these settings"
            raise ConfigError(f"{text} {key} must be at least {each.needs.min_batch_for_gradient}.", key=key)


def losses_by_part(loss: Loss, data: DataModule) -> dict[str, Loss]:
    """Return the loss of each part of the data; a loss without parts is that of all.

    Raises:
        ConfigError: The loss has other parts than the data.
    """
    if not isinstance(loss, JointLoss):
        return dict.fromkeys(data.parts, loss)
    losses: dict[str, Loss] = dict(loss.parts.items())
    if losses.keys() != data.parts.keys():
        known = f"the parts {', '.join(data.parts)}" if data.data_set.parts else "no parts (see data=joint)"
        text = f"loss.parts has losses for {', '.join(losses)}, but this data has {known}."
        raise ConfigError(text, key="loss.parts")
    return losses


def fits(loss: Loss | type[Loss], data: DataSet) -> bool:
    """Return whether a loss can use the views and the label of the data."""
    return loss.needs.accepts(len(data.views)) and data.label in loss.needs.labels


def _other_data(loss: Loss, data: DataSet, settings: Mapping[str, Any]) -> str | None:
    """Return how to read pairs with a score as positives, positives with a score, or triplets as pairs."""
    if not loss.needs.accepts(2):
        return None
    if "score" in loss.needs.labels and data.label == "none":
        return "Pairs with a score are read by data=pairs_file without data.positives_from."
    if "none" in loss.needs.labels and data.label == "score":
        low, high = settings.get("score_range") or SCORE_RANGE
        similar = f"To train it on similar pairs alone: data.positives_from={low + 0.8 * (high - low):g}; "
        others = "data=triplets_file reads pairs and triplets without a score."
        return similar + others if "positives_from" in settings else others
    if "none" in loss.needs.labels and data.label == "none" and "negatives" in settings:
        return "Without hard negatives: data.negatives=0."
    return None


def check_examples(loss: Loss, data: DataModule) -> None:
    """Reject scores without a gradient, and texts that would be counted as negatives.

    Args:
        loss: The loss.
        data: Data that has been read.

    Raises:
        ConfigError: A loss compares scores that are all equal, or would count empty places of hard
            negatives, or texts of the class; the message says which losses do not.
    """
    for name, each in losses_by_part(loss, data).items():
        part, rows = data.parts[name], data.splits[name].train
        labels = rows["label"] if part.label == "score" and each.needs.different_labels else []
        if labels and min(labels) == max(labels):
            same = f"all {len(labels):,} training pairs have the score {data.source_score(labels[0], name):g}"
            text, hint = f"compares scores, but {same}.", "loss=cosine_mse does not compare them."
            raise ConfigError(f"{type(each).__name__} {text}", key="loss", hint=hint)
        empty = empty_places(part, rows)
        for inner in each.modules():
            if not isinstance(inner, Loss) or sum(isinstance(m, Loss) for m in inner.modules()) > 1:
                continue  # what is around a loss hands the numbers on
            place = f"data.parts.{name}" if name else "data"
            counted_too, hint = "", f"Leave out {place}.mask_repeats=false"
            masks = data.mask_repeats[name] and "sentence_ids" in inner.needs.inputs
            if part.classes and not data.mask_repeats[name]:
                counted_too = "texts of a class as negatives of each other"
            if empty and (not masks or each.needs.counts_empty_places):
                counted_too = f"{counted(empty, 'empty place')} of rows with few hard negatives"
                hint += f", choose a loss that leaves them out, such as infonce, or set {place}.negatives=0"
            if counted_too:
                text = f"{type(inner).__name__} would count {counted_too}."
                raise ConfigError(text, key="loss", hint=f"{hint}.")


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


def warn_of_seen_dev_pairs(cfg: DictConfig) -> None:
    """Warn of an earlier run that has trained on the dev pairs of this one."""
    if cfg.init_from is None or not (start := RunFolder(cfg.init_from)).config_file.is_file():
        return  # without a run there the weights cannot be loaded either
    seen = describe_seen("this run", cfg, OmegaConf.create(start.settings()))
    if seen is not None:
        log.warning("WARNING: init_from=%s %s An early checkpoint may look too good.", start.name, seen)


def describe_seen(name: str, selecting: DictConfig, trained: DictConfig) -> str | None:
    """Describe why a run has, or may have, trained on the dev pairs by which another one selects.

    Args:
        name: Name of the other run.
        selecting: Configuration of the other run.
        trained: Configuration of the run that trained.

    Returns:
        What follows the name of the run in a message; None if it has not.
    """
    data = selecting.data
    drawn = bool(data.get("dev_fraction")) and data.get("dev_path") is None and data.get("dev_split") is None
    ours, theirs = _sources(selecting), _sources(trained)
    other_split = ours != theirs or _split(selecting) != _split(trained)
    if drawn and set(ours) & set(theirs) and other_split:
        return (
            f"has trained on dev pairs of {name}: both take them from the training pairs, with another "
            "path, seed, data.dev_fraction, data.limit or source of dev pairs."
        )
    path = data.get("dev_path")
    if path is not None and os.path.realpath(path) in [source for source, *_ in theirs]:
        return f"has trained on the dev pairs of {name} ({path})."
    return None


def _split(cfg: DictConfig) -> dict[str, object]:
    """Return the settings of data that decide which of the training pairs become dev pairs."""
    settings = select(flatten({"data": to_container(cfg.data)}), {"dev"})
    return {key: value for key, value in settings.items() if value is not None}


def _sources(cfg: DictConfig) -> list[tuple[str, object, object]]:
    """Return the files that a run was trained on, or the set on the hub with its split and configuration."""
    if cfg.get("path") is None:
        return []
    weights = weighted(to_container(cfg.path))
    with contextlib.suppress(DataError):  # they are gone, or on the hub
        weights = find_files(weights)
    return [(os.path.realpath(path), cfg.data.get("split"), cfg.data.get("config")) for path in weights]
