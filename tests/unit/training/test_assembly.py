from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from sts_lightning.config.check import check_config
from sts_lightning.core.errors import ConfigError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.training.assembly import make_data
from sts_lightning.workflows.checks import build_parts
from tests.conftest import CONF

Config = Callable[..., DictConfig]

OWN = {"pairs_file", "pairs_hub", "toy"}
"""Choices whose dev and test pairs are not SentEval's."""


@pytest.mark.parametrize("choice", sorted(path.stem for path in (CONF / "data").glob("*.yaml")))
def test_settings_of_the_top_level_reach_every_data_set(choice: str, config: Config, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("sentence1,sentence2,score\na,b,1\n")
    given = ["data_root=elsewhere", "senteval_text=prepared", "dev=stsb_clean"]
    path = [] if choice in ("sts", "toy") else [f"path={file}"]
    cfg = check_config(config(f"data={choice}", *path, *given))
    data = make_data(cfg)
    loss = {"score": "pearson", "class": "cross_entropy", "none": "infonce"}[data.label]
    fits = check_config(config(f"data={choice}", *path, *given, f"loss={loss}"))
    if choice in OWN:
        with pytest.raises(ConfigError, match="dev=stsb_clean has no effect on this data"):
            build_parts(RunFolder(tmp_path / "run"), fits)
    else:
        build_parts(RunFolder(tmp_path / "run"), fits)
        assert (data.root, data.senteval_text, data.dev_set) == ("elsewhere", "prepared", "stsb_clean")
    if path and choice != "pairs_file":  # which keeps the files with their weights
        assert data.path in (str(file), {str(file): 1.0}, [str(file)])
