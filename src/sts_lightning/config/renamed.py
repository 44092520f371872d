"""Settings of run folders of earlier versions: targets that have moved, settings that were added since."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from omegaconf import DictConfig, ListConfig, Node

RENAMED = {
    "sts_lightning.models.tiny_bert.tiny_bert": "sts_lightning.testing.tiny_bert.tiny_bert",
    "sts_lightning.models.tiny_decoders.tiny_llama": "sts_lightning.testing.tiny_decoders.tiny_llama",
    "sts_lightning.models.tiny_decoders.tiny_mistral": "sts_lightning.testing.tiny_decoders.tiny_mistral",
    "sts_lightning.models.tiny_decoders.tiny_opt": "sts_lightning.testing.tiny_decoders.tiny_opt",
    "lightning.pytorch.callbacks.EMAWeightAveraging": "sts_lightning.training.ema.WeightEMA",
    "sts_lightning.data.toy.ToyData": "sts_lightning.testing.toy.ToyData",
}
"""Current name of each target by its first name; extend it whenever a target moves."""

ADDED: dict[tuple[str, ...], Any] = {
    ("companion",): {},
    ("companion", "precision"): None,
    ("dev",): "stsb",
    ("data", "dev"): "stsb",
    ("optim", "stretch"): 1.0,
    ("queue", "official"): False,
    ("evaluation", "rank"): False,
    ("callbacks", "rank_monitor", "views"): "none",
    ("trainer", "keep_every"): None,
    ("trainer", "select_untuned"): False,
    ("trainer", "wise_ft"): [],
    ("step",): None,
    ("test",): None,
    ("sentence1",): "sentence1",
    ("sentence2",): "sentence2",
    ("score",): "score",
    ("score_range",): None,
}
"""Value of each added setting that has the effect of earlier versions, which lacked it.

Folders of sweep jobs are named after a hash of the settings; with this value a setting is not part of it, so
that a finished job keeps its folder.
"""

_FIRST_NAMES = {new: old for old, new in RENAMED.items()}


def update_targets(node: DictConfig | ListConfig) -> None:
    """Replace former names of targets by current ones, in place."""
    if node._is_none() or node._is_missing() or node._is_interpolation():
        return
    keys: Any = list(node) if isinstance(node, DictConfig) else range(len(node))
    for key in keys:
        child = node._get_node(key)
        if isinstance(child, DictConfig | ListConfig):
            update_targets(child)
        elif key == "_target_" and isinstance(child, Node) and child._value() in RENAMED:
            node[key] = RENAMED[child._value()]


def without_added(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a plain configuration without the settings of `ADDED` that have no effect."""
    copy: dict[str, Any] = deepcopy(dict(values))
    for path, neutral in ADDED.items():
        group: Any = copy
        for key in path[:-1]:
            group = group.get(key) if isinstance(group, dict) else None
        if isinstance(group, dict) and path[-1] in group and group[path[-1]] == neutral:
            del group[path[-1]]
    return copy


def add_former_settings(cfg: DictConfig) -> None:
    """Add what runs of former versions did where a setting did not exist yet, in place.

    They cut dev and test sentences at the length of training.

    Args:
        cfg: Configuration of a run, or configurations of its stages by name.
    """
    parts = [cfg, *(cfg._get_node(key) for key in cfg)]
    for part in parts:
        if not isinstance(part, DictConfig):
            continue
        model, evaluation = (part._get_node(key) for key in ("model", "evaluation"))
        if not (isinstance(model, DictConfig) and isinstance(evaluation, DictConfig)):
            continue
        length = model._get_node("max_length")
        if "max_length" not in evaluation and length is not None:
            evaluation.max_length = length._value()


def first_names(value: Any) -> Any:
    """Return a copy of plain containers in which each target has its first name.

    Folders of sweep jobs are named after a hash of these, so that a moved target keeps its folder.
    """
    if isinstance(value, Mapping):
        return {
            key: _FIRST_NAMES.get(item, item)
            if key == "_target_" and isinstance(item, str)
            else first_names(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [first_names(item) for item in value]
    return value
