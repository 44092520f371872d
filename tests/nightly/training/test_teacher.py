from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from omegaconf import DictConfig

import sts_lightning
from sts_lightning.runs.folder import RunFolder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.auxiliary.teacher import Teacher
from tests.support.exports import trained
from tests.unit.training.test_teacher import FIRST


def test_a_run_of_stages_teaches_by_its_last(config: Callable[..., DictConfig], tmp_path: Path) -> None:
    last = tmp_path / "run" / "second"
    trained(last, config)
    RunFolder(tmp_path / "run").save_stages({"second": RunFolder(last).load_config()})
    teacher = Teacher([str(tmp_path / "run")])
    teacher.connect(tiny_bert())
    assert np.array_equal(teacher.encoders[0].encode(FIRST), sts_lightning.load(last).encode(FIRST))
