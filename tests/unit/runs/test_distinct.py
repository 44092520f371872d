"""Lists of runs in which none may stand twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from sts_lightning.core.errors import ConfigError
from sts_lightning.runs.folder import RunFolder, check_distinct


def test_a_run_and_its_last_stage_are_the_same(tmp_path: Path) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    run.mkdir()
    RunFolder(run).save_stages({name: OmegaConf.create({"seed": 0}) for name in ("one", "two")})
    last = RunFolder(run).last_stage().path
    check_distinct([run, other, run / "one"])
    with pytest.raises(ConfigError, match=r"is named twice, as .* and .*two, and would count"):
        check_distinct([run, other, last])
    other.symlink_to(run)
    with pytest.raises(ConfigError, match="named twice"):
        check_distinct([run, other])
