from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from sts_lightning.workflows.seen_dev_pairs import describe_seen

PAIRS = {"path": "mine.csv", "dev_path": None, "dev_fraction": 0.1, "seed": 1}


@pytest.mark.parametrize(
    ("selecting", "trained", "expected"),
    [
        (PAIRS, {**PAIRS, "seed": 2}, "has trained on dev pairs of it: both"),
        (PAIRS, {**PAIRS, "dev_fraction": 0.2}, "has trained on dev pairs of it: both"),
        (PAIRS, {**PAIRS, "dev_path": "dev.csv"}, "has trained on dev pairs of it: both"),
        (PAIRS, {**PAIRS, "path": ["other.csv", "mine.csv"]}, "has trained on dev pairs of it: both"),
        (PAIRS, {**PAIRS, "seed": 2, "path": {"mine.csv": 2}}, "has trained on dev pairs of it: both"),
        (PAIRS, {**PAIRS, "seed": 2, "path": "other.csv"}, None),
        (PAIRS, {**PAIRS, "path": "./mine.csv"}, None),
        ({**PAIRS, "dev_path": "dev.csv"}, {**PAIRS, "seed": 2, "dev_path": "dev.csv"}, None),
        (
            {**PAIRS, "dev_path": "dev.csv"},
            {**PAIRS, "path": ["./dev.csv"]},
            "has trained on the dev pairs of it (",
        ),
        ({"dev": "suite"}, {"dev": "stsb"}, "may have trained on dev pairs of it, whose dev=suite"),
        ({"dev": "suite"}, {}, None),
        ({"dev": "stsb"}, {"dev": "suite"}, None),
    ],
)
def test_reasons(selecting: dict[str, object], trained: dict[str, object], expected: str | None) -> None:
    found = describe_seen("it", OmegaConf.create(selecting), OmegaConf.create(trained))
    assert found is None if expected is None else str(found).startswith(expected)
