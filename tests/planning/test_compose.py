"""Composition of what train.py would run."""

from __future__ import annotations

from sts_lightning.planning.compose import compose_runs


def test_a_run_and_its_stages() -> None:
    (name,) = compose_runs(["model=tiny_bert", "data=toy"])
    assert name == "run"
    stages = compose_runs(["experiment=pcc", "prompt=sum", "+stages.stage2.data.batch_size=32"])
    assert list(stages) == ["stage1", "stage2"]
    assert stages["stage1"].data.batch_size == 240  # the published cell
    assert stages["stage2"].data.batch_size == 32
    assert stages["stage2"].name == "plan-stage2"
