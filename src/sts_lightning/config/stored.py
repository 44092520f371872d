"""Stored configurations: read as data, taken for the schema of this version, and built once they are trusted.

Whoever made the folder of a run chose what its file names (``_target_``) and by which settings libraries
import or download code. Only the text is read here: nothing that it names is imported before it has passed
`check`. ``trust=true`` lets everything pass. A configuration that the command composes is the user's own.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.build import LOADING, arguments_of
from sts_lightning.config.check import nodes
from sts_lightning.config.folders import PACKAGED, PAPERS
from sts_lightning.config.schema import TrainConfig
from sts_lightning.core.choices import Attention
from sts_lightning.core.errors import CheckpointError, UntrustedError

log = logging.getLogger(__name__)

MOVED = {
    "data.hub_pairs.pairs_hub": "data.own_scored_pairs.scored_pairs",
    "data.hub_pairs.triplets_hub": "data.own_rows.triplets",
    "data.nli.nli_triplets": "data.own_rows.triplets",
    "data.own_pairs.pairs_file": "data.own_scored_pairs.scored_pairs",
    "data.rows.labels_file": "data.own_rows.labeled_texts",
    "data.rows.triplets_file": "data.own_rows.triplets",
    "losses.bixse.BiXSELoss": "losses.contrastive.BiXSELoss",
    "losses.contrastive_tension.ContrastiveTensionLoss": (
        "papers.losses.contrastive_tension.ContrastiveTensionLoss"
    ),
    "losses.decoupled.DecoupledLoss": "losses.contrastive.DecoupledLoss",
    "losses.energy.EnergyLoss": "losses.contrastive.EnergyLoss",
    "losses.gist.GISTLoss": "losses.contrastive.GISTLoss",
    "losses.hardness.HardnessLoss": "losses.contrastive.HardnessLoss",
    "losses.infocse.InfoCSELoss": "papers.losses.infocse.InfoCSELoss",
    "losses.infonce.InfoNCELoss": "losses.contrastive.InfoNCELoss",
    "losses.l1.L1Loss": "losses.regression.L1Loss",
    "losses.mixcse.MixCSELoss": "papers.losses.mixcse.MixCSELoss",
    "losses.mse.MSELoss": "losses.regression.MSELoss",
    "losses.pro.PROLoss": "papers.losses.pro.PROLoss",
    "losses.rank_kl.RankKLLoss": "papers.losses.rank_kl.RankKLLoss",
    "losses.rankcse.RankCSELoss": "papers.losses.rankcse.RankCSELoss",
    "losses.score_distillation.ScoreDistillationLoss": "losses.cosine_mse.ScoreDistillationLoss",
    "losses.sigmoid.SigmoidLoss": "losses.contrastive.SigmoidLoss",
    "losses.smooth_k2.SmoothK2Loss": "losses.regression.SmoothK2Loss",
    "losses.translated_relu.TranslatedReLULoss": "losses.regression.TranslatedReLULoss",
    "models.architectures.static_embeddings.glove": "papers.glove.glove",
    "training.auxiliary.masked_lm.MaskedLanguageModel": "papers.auxiliary.masked_lm.MaskedLanguageModel",
    "training.auxiliary.momentum_queue.MomentumQueue": "papers.auxiliary.momentum_queue.MomentumQueue",
    "training.auxiliary.second_encoder.SecondEncoder": "papers.auxiliary.second_encoder.SecondEncoder",
    "training.callbacks.rank_monitor.RankMonitor": "papers.rank_monitor.RankMonitor",
}
"""Names (below ``sts_lightning``) of classes in runs of earlier versions, and what they are now."""

PAPER_CODE = "papers.losses.paper_code"
"""Module of what losses with ``official`` of earlier versions are now."""


def read_settings(path: Path) -> dict[Any, Any]:
    """Return the configuration in a file, with the present names of its classes and settings, not resolved.

    Raises:
        CheckpointError: The file cannot be read, or is no configuration.
    """
    try:
        cfg = OmegaConf.load(path)
    except (yaml.YAMLError, OmegaConfBaseException, ValueError, OSError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    values = OmegaConf.to_container(cfg)
    if not isinstance(values, dict) or not values:
        raise CheckpointError(f"{path} is not a configuration: it has no keys.")
    loggers = values.get("logger")
    if isinstance(loggers, dict) and "HistoryLogger" in str(loggers.get("csv")):
        del loggers["csv"]  # of 0.3; every run writes its history
    for _, node in nodes(values):
        if node.get("official_gather") is False:  # true is left out with a warning
            del node["official_gather"]
        package, _, name = str(node.get("_target_")).partition(".")
        if package == "sts_lightning":
            name = MOVED.get(name, name)
            if node.pop("official", False) is True:
                module, _, kind = name.rpartition(".")
                name = f"{PAPER_CODE if 'losses' in module else module}.PaperCode{kind}"
            if "official_repetition" in node:
                node["paper_code_repetition"] = node.pop("official_repetition")
            if "drop_repeats" in node:
                node["drop_duplicates"] = node.pop("drop_repeats")
            if name == "losses.divided.DividedLoss" and "parts" in node:
                node["shards"] = node.pop("parts")
            node["_target_"] = f"{package}.{name}"
    _move_masks(values.get("data"), values.get("loss"))
    return values


LISTED = {
    "logger": r"lightning\.pytorch\.loggers\.(CSV|Comet|MLFlow|TensorBoard|Wandb)Logger",
    "callbacks": r"lightning\.pytorch\.callbacks\.(DeviceStatsMonitor|EarlyStopping|LearningRateMonitor|"
    r"(Rich)?ModelSummary|(Rich|TQDM)ProgressBar|Timer)",
    "model.adapter": r"peft\.(Lora|PrefixTuning)Config",
}
"""Patterns of the classes of other packages, by the place where they may be built."""

TEXT = re.compile(
    r"task_type|peft_type|bias|(target|exclude)_modules|modules_to_save|target_parameters|layers_pattern|"
    r"init_lora_weights|(rank|alpha)_pattern|hidden_act(ivation)?|activation_function|position_embedding_type|"
    r"rope_(scaling|parameters)|layer_types|(run_|experiment_)?name|project|version|monitor|mode|views"
)
"""Arguments of foreign classes whose text is a choice or a name.

By the text of others, such as ``tokenizer_name_or_path`` or ``save_dir``, they load code or write elsewhere.
"""


def requests(node: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield a line for everything in a configuration, as plain values, that needs the user's word."""
    items = node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list) else ()
    for name, value in items:
        key = (*path, str(name))
        why = _why(key, value)
        yield from [f"{'.'.join(key)}: {repr(value)[:100]} ({why})"] if why else requests(value, key)


def check(values: Mapping[Any, Any], source: str, trust: bool) -> None:
    """Reject a stored configuration that needs the user's word, unless ``trust`` is that.

    Raises:
        UntrustedError: The message has all `requests`, and names the file as ``source``.
    """
    if not trust and (asked := list(requests(values))):
        lines = "\n  ".join([f"{source} asks for more than classes of this project:", *asked])
        raise UntrustedError(
            f"{lines}\nWhat it names can do whatever you can. If you have read it and want it to run, add "
            "trust=true, as in: train resume=RUN trust=true"
        )


def _why(path: tuple[str, ...], value: Any) -> str | None:
    """Return why a setting is not taken as data; None if it is."""
    name = path[-1]
    if isinstance(value, str) and "${" in value:
        return "an interpolation"
    if name == "_target_":
        return None if _is_built(path[:-1], value) else "not a class that this project builds here"
    if re.fullmatch(r"_\w+_", name):
        return "an instruction to Hydra"
    if name == "trust_remote_code" and value not in (False, None):
        return "code that comes with the model"
    if path == ("auxiliary", "cache_dir") and value is not None:
        return "a folder that is written to"
    foreign = path[0] in LISTED or path[:2] in (("model", "adapter"), ("model", "config"))
    if foreign and len(path) == 3 and not _is_data(name, value):
        return "may make a library load code, or lead out of the run folder"
    return None


def _is_built(place: tuple[str, ...], target: Any) -> bool:
    """Return whether a class is built at a place; at others its arguments might not be looked at."""
    group = ".".join(place if place == ("model", "adapter") else place[:1])
    depth = {"model": 1, "logger": 2, "callbacks": 2}.get(group, len(place))  # losses and data have parts
    known = re.fullmatch(LISTED.get(group, "(?!)"), str(target)) or (group, str(target)) in _own()
    return len(place) == depth and bool(known)


@cache
def _own() -> frozenset[tuple[str, str]]:
    """Return the classes of this package that its ``conf`` names, by group.

    Names are compared as a whole: a prefix would also admit all that a module imports.
    """
    return frozenset(
        (path.parent.name, target)
        for folder in (PACKAGED, PAPERS)
        for path in folder.glob("*/*.yaml")
        for target in re.findall(r"_target_: (sts_lightning\.[\w.]+)", path.read_text("utf-8"))
    )


def _is_data(name: str, value: Any) -> bool:
    """Return whether an argument of a foreign class is made of numbers, a choice, a name, or empty."""
    parts = value if isinstance(value, list) else [value]
    if TEXT.fullmatch(name):
        return not any(Path(p).is_absolute() or ".." in Path(p).parts for p in parts if isinstance(p, str))
    harmless = (None, {}, *get_args(Attention))
    numbers = all(isinstance(part, bool | int | float) or part in harmless for part in parts)
    return numbers and not (name.startswith("megatron") and value)  # peft imports a module if that is true


def adapt(values: dict[Any, Any], source: str) -> DictConfig:
    """Return a configuration of the schema: what a run of an earlier version lacks gets its default.

    A later version gives a new setting a default in the schema, and a new argument one in its class, with
    which earlier runs stay as they were. Settings that this version lacks are left out, with a warning.

    Args:
        values: The configuration as plain values, which may be built; see `check`.
        source: Where it stands, for messages.

    Raises:
        CheckpointError: It lacks a setting without a default, or a value is of another type than its setting.
    """
    needed = {name for name, setting in TrainConfig.model_fields.items() if setting.is_required()}
    if absent := sorted(needed - values.keys()):
        raise CheckpointError(
            f"{source} is not the configuration of a run: it has no {', '.join(absent)}.", key=absent[0]
        )
    for group, name in (("trainer", "val_every"), ("optim", "warmup")):
        node = values[group]
        if isinstance(node, dict) and node.get(name) == 1:
            node[name] = 1  # one step, which 0.3 stored as 1.0
    merged: DictConfig = OmegaConf.structured(TrainConfig.structured)
    unknown = []
    for key, node in nodes(values):
        known = _known(key, node, merged)
        for name in [name for name in node if known is not None and name not in known]:
            unknown.append(f"{key}.{name}".removeprefix("."))
            node.pop(name)
    if unknown:
        log.warning("WARNING: %s: left out, since this version lacks it: %s", source, ", ".join(unknown))
    try:
        for group, value in values.items():  # one by one: an error of them all may name no key
            OmegaConf.update(merged, group, value)
    except OmegaConfBaseException as error:
        key = str(error.full_key)
        raise CheckpointError(
            f"{source}: its {key} cannot be understood: {str(error).splitlines()[0]}.",
            key=key,
            hint=f"Correct {key} in that file.",
        ) from error
    return merged


def _known(key: str, node: dict[Any, Any], schema: DictConfig) -> Collection[str] | None:
    """Return the settings of a group; None if it takes any, or building it says what is wrong."""
    typed = OmegaConf.get_type(OmegaConf.select(schema, key))
    if dataclasses.is_dataclass(typed):
        return {field.name for field in dataclasses.fields(typed)}
    names = arguments_of(node["_target_"]) if "_target_" in node else None
    if names is None or "kwargs" in names:
        return None
    return {"_target_", *names, *(LOADING if key.startswith("data") else ())}


def _move_masks(data: Any, loss: Any) -> None:
    """Move ``mask_repeats``, which version 0.3 had in each loss, to the data or its parts."""
    if not (isinstance(data, dict) and isinstance(loss, dict)):
        return
    parts, datas = loss.get("parts"), data.get("parts")
    for name, of_data in (datas if isinstance(datas, dict) else {"": data}).items():
        of_part = parts.get(name, {}) if isinstance(parts, dict) else loss
        masking = [
            node
            for _, node in nodes(of_part)
            if "mask_repeats" in node and str(node.get("_target_")).startswith("sts_lightning.")
        ]
        values = {node["mask_repeats"] for node in masking}
        if len(values) == 1 and isinstance(of_data, dict):  # `adapt` says that different ones are left out
            of_data["mask_repeats"] = values.pop()
            for node in masking:
                del node["mask_repeats"]
