"""Configurations of planned jobs."""

from __future__ import annotations

import pytest

from sts_lightning.reproduce.configs import train_configs


@pytest.mark.slow
def test_a_run_and_its_stages_without_seed_and_start() -> None:
    overrides = ("model=tiny_bert", "data=toy", "seed=7", "init_from=runs/nowhere")
    ((name, cfg),) = train_configs(overrides).items()
    assert (name, cfg.init_from, cfg.model.pooling) == ("", None, "mean")
    assert "hydra" not in cfg
    stages = train_configs(("experiment=pcc", "prompt=sum", "+stages.stage2.data.batch_size=32"))
    assert [stage.data.batch_size for stage in stages.values()] == [240, 32]
