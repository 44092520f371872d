"""Targets and settings that a stored configuration may use without the user's consent.

Classes are compared by their exact dotted names, each at its place in the configuration, since a prefix would
also admit everything that a module imports. Settings by which libraries load code may hold text only if
listed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

from sts_lightning.choices import Attention
from sts_lightning.config.schema import PromptConfig


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ENCODERS = (
    "sts_lightning.models.SentenceEncoder.from_pretrained",
    "sts_lightning.models.encoder.SentenceEncoder.from_pretrained",
)
REGULARIZERS = (
    "sts_lightning.regularizers.global_orthogonal.GlobalOrthogonal",
    "sts_lightning.regularizers.rank_reduction.RankReduction",
)
COMPANIONS = (
    "sts_lightning.training.masked_lm.MaskedLanguageModel",
    "sts_lightning.training.teacher.Teacher",
    "sts_lightning.training.teacher_vectors.TeacherVectors",
    "sts_lightning.training.twin.TwinEncoder",
)
TENSORBOARD = _words("name version prefix sub_dir log_graph default_hp_metric max_queue flush_secs")
PEFT = re.compile(r"peft\.[A-Z]\w*Config")

ARGUMENTS: dict[str, dict[str, frozenset[str]]] = {
    "logger": {
        "sts_lightning.training.history.HistoryLogger": frozenset(),
        "lightning.pytorch.loggers.TensorBoardLogger": TENSORBOARD,
        "lightning.pytorch.loggers.WandbLogger": _words(
            "name version id project entity group job_type tags notes prefix offline"
        ),
    },
    "callbacks": {
        "sts_lightning.training.rank_monitor.RankMonitor": _words(
            "every pairs fraction power patience margin views"
        ),
        "lightning.pytorch.callbacks.EarlyStopping": _words(
            "monitor min_delta patience verbose mode strict check_finite stopping_threshold "
            "divergence_threshold check_on_train_epoch_end log_rank_zero_only"
        ),
        "sts_lightning.training.ema.WeightEMA": _words(
            "device use_buffers decay update_every_n_steps update_starting_at_step update_starting_at_epoch"
        ),
    },
}
"""Loggers and callbacks by group, each with the arguments that a run folder may set."""

TRAINER_EXTRA = _words(
    "fast_dev_run min_epochs min_steps max_time limit_val_batches limit_test_batches overfit_batches "
    "enable_checkpointing gradient_clip_algorithm benchmark inference_mode profiler detect_anomaly barebones "
    "sync_batchnorm reload_dataloaders_every_n_epochs enable_autolog_hparams"
)
"""Arguments of Lightning's Trainer that name no class, plugin or path."""

PEFT_TEXT = _words(
    "task_type peft_type peft_version revision base_model_name_or_path bias target_modules exclude_modules "
    "modules_to_save layers_pattern target_parameters feedforward_modules rank_pattern alpha_pattern "
    "n_frequency_pattern block_size_pattern init_lora_weights init_weights init_type "
    "encoder_reparameterization_type prompt_tuning_init prompt_tuning_init_text decomposition_method "
    "ab_svd_init psoft_svd mask_type wavelet_family variant poly_type config_A_B config_C config_D_E"
)
"""Arguments of peft's configurations whose text is a choice or the name of a layer.

All others may hold only numbers.
"""

PEFT_CODE = _words(
    "megatron_config megatron_core adapters shadow_model tokenizer_kwargs tokenizer_name_or_path"
)
"""Arguments that must be null.

With a ``megatron_config``, peft imports the module named by ``megatron_core``, by default ``megatron.core``;
it loads the objects named by the others.
"""

MODEL_TEXT = _words(
    "hidden_act hidden_activation activation_function position_embedding_type rope_scaling rope_parameters "
    "layer_types"
)
"""Settings of a model's configuration whose text is a choice; by others, transformers may load code."""


def is_known(target: str, path: tuple[str, ...]) -> bool:
    """Return whether a target needs no consent at its place in the configuration.

    Args:
        target: Dotted name of the target.
        path: Keys that lead to the node with the target.
    """
    group, depth = (path[0] if path else ""), len(path)
    if group == "model":
        if depth == 1:
            return target in ENCODERS or _is_defined(target, "model")
        return path[1] == "adapter" and PEFT.fullmatch(target) is not None
    if group == "loss":
        return _is_defined(target, "loss")
    if group == "data":
        return depth == 1 and _is_defined(target, "data")
    if group == "regularizer":
        return depth == 1 and target in REGULARIZERS
    if group == "companion":
        return depth == 1 and target in COMPANIONS
    return depth == 2 and target in ARGUMENTS.get(group, {})


PACKAGES = {"model": ("models", "testing"), "loss": ("losses",), "data": ("data", "testing")}
"""Packages of this project that define the targets of each group."""


def _is_defined(target: str, group: str) -> bool:
    """Return whether a dotted name is a target of the group, defined in one of this project's modules."""
    match = re.fullmatch(r"sts_lightning\.([a-z]+)\.([a-z0-9_]+)\.(\w+)", target)
    return (
        match is not None
        and match[1] in PACKAGES[group]
        and match[3] in _definitions(group, *match.groups()[:2])
    )


@cache
def _definitions(group: str, package: str, module: str) -> frozenset[str]:
    """Return the targets that a module defines itself: losses, data sets, functions that return an encoder.

    The source is parsed, not executed. Names that the module imports are not among its targets.
    """
    source = files("sts_lightning").joinpath(package, f"{module}.py")
    if not source.is_file():
        return frozenset()
    nodes = ast.parse(source.read_text(encoding="utf-8")).body
    if group == "model":
        returns = {
            node.name: ast.unparse(node.returns)
            for node in nodes
            if isinstance(node, ast.FunctionDef) and node.returns is not None
        }
        names = [name for name, returned in returns.items() if returned == "SentenceEncoder"]
    else:
        suffix = {"loss": "Loss", "data": "Data"}[group]
        names = [node.name for node in nodes if isinstance(node, ast.ClassDef) and node.name.endswith(suffix)]
    return frozenset(name for name in names if not name.startswith("_"))


def suspects(node: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the settings by which a library might load code or write outside the run folder.

    Args:
        node: Mapping in a configuration.
        path: Keys that lead to it.

    Yields:
        Name of a setting, and the reason why it needs consent.
    """
    values = {name: value for name, value in node.items() if not re.fullmatch(r"_\w+_", name)}
    target = node.get("_target_")
    if path == ("prompt",):
        known = {field.name for field in fields(PromptConfig)}
        for name in sorted(values.keys() - known):  # they become arguments of the model's class
            yield name, "no setting of a prompt"
    elif path == ("model", "config"):
        for name, value in values.items():
            attention = name.removeprefix("_") == "attn_implementation" and value in get_args(Attention)
            private = name.startswith("_") or (not _is_plain(value) and name not in MODEL_TEXT)
            if private and not attention:
                yield name, "may make transformers load code"
    elif path == ("companion",) and isinstance(values.get("cache_dir"), str):
        yield "cache_dir", "a folder that is written to"
    elif path == ("trainer", "extra"):
        for name in sorted(values.keys() - TRAINER_EXTRA):
            yield name, "may make Lightning load code or write elsewhere"
    elif isinstance(target, str) and PEFT.fullmatch(target):
        for name, value in values.items():
            nested = isinstance(value, Mapping) and "_target_" in value
            code = name in PEFT_CODE and value is not None
            if code or (name not in PEFT_TEXT and not nested and not _is_plain(value)):
                yield name, "may make peft load code"
    elif len(path) == 2 and isinstance(target, str) and target in ARGUMENTS.get(path[0], {}):
        for name, value in values.items():
            if name not in ARGUMENTS[path[0]][target]:
                yield name, "not an argument that a run folder may set"
            elif path[0] == "logger" and _leads_out(value):
                yield name, "a path out of the run folder"


def _is_plain(value: Any) -> bool:
    """Return whether a value is a number, a boolean, null, a list of these, or an empty mapping."""
    if isinstance(value, Mapping):
        return not value
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float)


def _leads_out(value: Any) -> bool:
    return isinstance(value, str) and (Path(value).is_absolute() or ".." in Path(value).parts)
