"""A recipe for each sort of data, head, adapter and auxiliary model trains a few steps and comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.recipes import Config, check_training

RECIPES = {
    "stage2": "scored pairs",
    "simcse_sup": "triplets",
    "simcse_unsup": "sentences and a projection",
    "regression_nli": "classes, and a loss with a head",
    "pcc_stage1": "a decoder with LoRA on 4-bit weights",
    "infocse": "an auxiliary model",
    "rankcse": "a teacher that is a run",
}


@pytest.mark.parametrize("experiment", RECIPES)
def test_a_recipe_trains_and_comes_back(
    experiment: str, config: Config, tmp_path: Path, uninterrupted: Path
) -> None:
    check_training(experiment, config, tmp_path, uninterrupted)
