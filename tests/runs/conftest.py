from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.conftest import CONF
from tests.support.whole_runs import EPOCHS


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing stopped; it keeps the state to resume from."""
    run = tmp_path_factory.mktemp("runs") / "whole"
    with initialize_config_dir(str(CONF), version_base="1.3"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder, "remove_state", lambda run: None)
        train_in(run, compose("train", [*EPOCHS, "name=test"]))
    return run
