"""What is said before training."""

from __future__ import annotations

import pytest

from sts_lightning.config.compose import compose_job, job_config
from sts_lightning.workflows.train import published_experiment


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["model=mistral7b", "loss=infonce", "data=nli_triplets"], "pcc_stage1"),
        (["model=mistral7b", "loss=pearson"], "pcc"),
        (["experiment=pcc_stage1", "model=mistral7b"], None),
        (["model=mistral7b", "recipe=none"], None),
        (["model=minilm", "recipe=qlora", "prompt=eol"], None),
    ],
)
def test_a_command_that_takes_half_a_recipe_names_the_whole(overrides: list[str], named: str | None) -> None:
    with job_config(compose_job("train", tuple(overrides))):
        assert published_experiment() == named
