"""Evaluation of a model or a run on a suite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from sts_lightning.errors import UserError
from sts_lightning.workflows.evaluate import evaluate_in

Config = Callable[..., DictConfig]


@pytest.mark.usefixtures("no_weights")
@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["tasks=[]"], "tasks=[]"),
        (["tasks=[STSB,STSB]"], "tasks: STSB"),
        (["suite=transfer", "tasks=[MR,MR]"], "tasks: MR"),
        (["suite=mteb", "tasks=[]"], "tasks=[]"),
        (["suite=mteb", "tasks=[STS12]", "subsets=[]"], "subsets=[]"),
        (["suite=mteb", "tasks=[STS12]", "languages=[eng,eng]"], "languages: eng"),
        (["languages=[eng]"], "languages"),
        (["tasks=[STS17]"], "STS17"),
        (["model.max_length=.nan"], "model.max_length"),
    ],
)
def test_evaluation_settings(overrides: list[str], key: str, config: Config, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        evaluate_in(tmp_path / "run", config("model=tiny_bert", *overrides, of="eval"))
    assert key in str(caught.value)
    assert not (tmp_path / "run").exists()
