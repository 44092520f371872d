"""Lists of runs in which none may stand twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.core.errors import ConfigError
from sts_lightning.runs.folder import check_distinct


def test_a_run_is_named_once(tmp_path: Path) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    run.mkdir()
    check_distinct([run, other, run / "one"])
    with pytest.raises(ConfigError, match=r"is named twice, and would count"):
        check_distinct([run, other, run])
    other.symlink_to(run)
    with pytest.raises(ConfigError, match="named twice"):
        check_distinct([run, other])
