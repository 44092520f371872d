"""A setting decides alike on the folder of a job, on what may go on there, and on the groups of a list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.identity import configuration_hash
from sts_lightning.core.errors import ConfigError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.listing import find_runs, group_seeds
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.state import check_same
from tests.conftest import SHORT_RUN

Config = Callable[..., DictConfig]

RANKS = "callbacks=rank_monitor"
REGULARIZER = ("regularizer=rank_reduction", RANKS)
STOPPING = ("callbacks=[rank_monitor,early_stopping]", "callbacks.early_stopping.monitor=rank/energy")
GATHER = ("trainer.official_gather=true",)


@pytest.mark.parametrize(
    ("given", "changed", "same"),
    [
        # the result
        ((), "optim.lr=1e-3", False),
        ((), "data.batch_size=8", False),
        ((), "trainer.max_steps=3", False),
        ((), "trainer.val_every=2", False),
        ((), "loss=cosent", False),
        ((), "callbacks=ema", False),
        # the division of a batch
        ((), "trainer.micro_batch_size=8", True),
        ((), "trainer.chunk_tokens=64", True),
        ((), "trainer.devices=2", True),
        ((), "trainer.num_nodes=2", True),
        (GATHER, "trainer.devices=2", False),
        # records
        ((), "logger=csv", True),
        ((), "data.num_workers=1", True),
        ((), "trainer.log_every_n_steps=1", True),
        ((), "trainer.save_every=1", True),
        ((), "trainer.keep_every=1", True),
        ((), RANKS, True),
        (REGULARIZER, "callbacks.rank_monitor.patience=9", False),
        (STOPPING, "callbacks.rank_monitor.every=9", False),
        # where the data are
        ((), "data_root=elsewhere", True),
    ],
)
def test_hash_resumption_and_group_agree(
    given: tuple[str, ...], changed: str, same: bool, config: Config, tmp_path: Path
) -> None:
    one, two = (config(*SHORT_RUN, *given, *more) for more in ((), (changed,)))
    assert (configuration_hash(one) == configuration_hash(two)) is same

    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    run = RunFolder(tmp_path / "one")
    run.save_config(one)
    try:
        check_same(run, two)
        resumes = True
    except ConfigError:
        resumes = False
    assert resumes is same

    for name, cfg in (("one", one), ("two", two)):
        RunFolder(tmp_path / name).save_config(cfg)
        RunFolder(tmp_path / name).save_metrics(RunMetrics(None, {"spearman": 80.0}))
    assert len(group_seeds(find_runs(tmp_path))) == (1 if same else 2)


def test_a_run_of_stages_has_one_division(config: Config) -> None:
    stages = {"one": {"experiment": "stage2"}}
    one, two = (config(*SHORT_RUN, *more) for more in ((), ("trainer.micro_batch_size=8",)))
    assert configuration_hash(one) == configuration_hash(two)
    one.stages, two.stages = OmegaConf.create(stages), OmegaConf.create(stages)
    assert configuration_hash(one) != configuration_hash(two)
