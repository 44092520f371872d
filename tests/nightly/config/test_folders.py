"""Which folders the configuration is read from, and in which order."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hydra import compose

from sts_lightning.config.compose import composing
from sts_lightning.config.folders import folders
from tests.conftest import CONF, PAPERS_CONF
from tests.unit.config.test_folders import add
from tests.unit.config.test_folders import empty as empty


def test_a_folder_of_another_project_changes_no_model(empty: Path, caplog: pytest.LogCaptureFixture) -> None:
    add(empty, "conf/config.yaml", "defaults: [model: minilm]\n")
    assert folders() == (CONF, PAPERS_CONF)
    assert not caplog.messages  # nothing in it could be meant
    add(empty / "other", "conf/config.yaml", "")
    add(empty / "other", "conf/model/minilm.yaml", "_target_: torch.nn.Identity\n")
    os.chdir(empty / "other")
    with composing():
        assert compose("train").model._target_ == "sts_lightning.models.SentenceEncoder.from_pretrained"
    [said] = caplog.messages
    command = said.rpartition("STS-Lightning: ")[2]
    subprocess.run(command.split(), check=True)
    assert folders() == (empty / "other/conf", CONF, PAPERS_CONF)
