"""A setting decides alike on the folder of a job, on what may go on there, and on the groups of a list."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.identity import configuration_hash, declared
from sts_lightning.config.schema import COMPONENTS, EvalConfig, TrainConfig
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.listing import find_runs, group_seeds
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.state import differing
from tests.conftest import SHORT_RUN

Config = Callable[..., DictConfig]

RANKS = "callbacks=rank_monitor"
BASE = (*SHORT_RUN, "auxiliary=teacher", "auxiliary.sources=[a]")

FREE = {
    "trainer": (
        "devices num_nodes micro_batch_size chunk_tokens launch_tokens gradient_checkpointing cpu_fallback "
        "log_every_n_steps save_every keep_every keep_state"
    ),
    "": "data_root papers logger cache_dir trust traceback resume plan",
    "data": "num_workers",
    "auxiliary": "cache_dir",
}
"""Settings that leave the result as it is, whatever the schema says."""

UNCHANGED = {f"{group}.{name}".strip(".") for group, names in FREE.items() for name in names.split()}

SPLIT = ("seed", "limit", "dev_path", "dev_split", "dev_fraction", "dev_part", "dev_size")
DEV = {"dev", *(f"data.{name}" for name in SPLIT)}
"""Settings that decide which pairs select the weights."""

ARGUMENTS = [*COMPONENTS, "data.batch_size", "loss.scale", "model.max_length", "callbacks.ema.decay"]


OF_TRAINING = declared(TrainConfig)
OF_EVALUATION = declared(EvalConfig)


def other(value: Any) -> Any:
    """Return another value than that of a setting, of its type where there is one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, list):
        return [*value, 1]
    if isinstance(value, dict):
        return {**value, "other": {"_target_": "a.Class"}}
    return f"{value}x"


def untyped(cfg: DictConfig) -> DictConfig:
    return OmegaConf.create(OmegaConf.to_container(cfg))


def perturbed(cfg: DictConfig, key: str) -> DictConfig:
    changed = copy.deepcopy(cfg)
    OmegaConf.update(changed, key, other(OmegaConf.select(changed, key)), merge=False, force_add=True)
    return changed


def observed(one: DictConfig, two: DictConfig, folder: Path) -> tuple[bool, bool, bool]:
    """Return whether two configurations have one hash, may go on in one folder, and are one group."""
    for name, cfg in (("one", one), ("two", two)):
        (folder / name).mkdir(parents=True)
        RunFolder(folder / name).save_config(cfg)
    goes_on = not differing(RunFolder(folder / "one"), two)
    for name in ("one", "two"):
        RunFolder(folder / name).save_metrics(RunMetrics(None, {"spearman": 80.0}))
    groups = group_seeds(find_runs(folder))
    return configuration_hash(one) == configuration_hash(two), goes_on, len(groups) == 1


@pytest.mark.parametrize("place", ["", "parts"])
def test_each_setting_of_a_training(place: str, config: Config, tmp_path: Path) -> None:
    one = untyped(config(*BASE, "callbacks=ema"))
    keys = [*OF_TRAINING, *ARGUMENTS]
    if place:
        one.data = {"_target_": "a.joint", "parts": {"mine": one.data}}
        keys = [key for key in ARGUMENTS if key.startswith("data.")]
    found = {}
    for key in keys:
        real = key.replace("data.", "data.parts.mine.") if place else key
        found[key] = observed(one, perturbed(one, real), tmp_path / key)
    by_hand = dict.fromkeys(keys, (False, False, False)) | dict.fromkeys(
        UNCHANGED & set(keys), (True, True, True)
    )
    if not place:
        by_hand |= {"seed": (False, False, True), "name": (False, True, True)}
    assert found == by_hand

    kinds = {key: OF_TRAINING.get(key, COMPONENTS.get(key, "result")) for key in keys}
    free = {key for key, kind in kinds.items() if kind not in ("result", "dev")}
    assert free - {"name"} == UNCHANGED & set(keys)
    assert {key for key, kind in kinds.items() if kind == "dev"} == DEV & set(keys)


def test_each_setting_of_an_evaluation(config: Config, tmp_path: Path) -> None:
    one = untyped(config("model=tiny_bert", of="eval"))
    for key, kind in OF_EVALUATION.items():
        same = key in UNCHANGED
        assert observed(one, perturbed(one, key), tmp_path / key)[:2] == (same, same), key
        assert (kind not in ("result", "dev")) is same


def test_one_key_affects_the_same_in_training_and_evaluation() -> None:
    for key in OF_TRAINING.keys() & OF_EVALUATION.keys():
        assert OF_TRAINING[key] == OF_EVALUATION[key], key


@pytest.mark.parametrize(
    ("given", "changed", "same"),
    [
        ((), RANKS, True),
        ((RANKS,), "callbacks.rank_monitor.every=9", True),
        ((), "+callbacks.x._target_=lightning.pytorch.callbacks.LearningRateMonitor", True),
        ((), "callbacks=ema", False),
        ((), "logger=csv", True),
        ((), "loss=cosent", False),
        (("regularizer=rank_reduction", RANKS), "callbacks.rank_monitor.patience=9", False),
        (
            ("callbacks=[rank_monitor,early_stopping]", "callbacks.early_stopping.monitor=rank/energy"),
            "callbacks.rank_monitor.every=9",
            False,
        ),
    ],
)
def test_settings_that_others_make_matter(
    given: tuple[str, ...], changed: str, same: bool, config: Config, tmp_path: Path
) -> None:
    one, two = (config(*SHORT_RUN, *given, *more) for more in ((), (changed,)))
    assert observed(one, two, tmp_path) == (same, same, same)
