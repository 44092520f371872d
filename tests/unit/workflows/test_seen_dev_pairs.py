from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from sts_lightning.workflows.preflight import describe_seen

PAIRS = {"dev_path": None, "dev_fraction": 0.1, "seed": 1}


def run(data: dict[str, object], path: object = "mine.csv") -> dict[str, object]:
    return {"data": data, "path": path}


@pytest.mark.parametrize(
    ("selecting", "trained", "expected"),
    [
        (run(PAIRS), run({**PAIRS, "seed": 2}), "has trained on dev pairs of it: both"),
        (run(PAIRS), run({**PAIRS, "dev_fraction": 0.2}), "has trained on dev pairs of it: both"),
        (run(PAIRS), run({**PAIRS, "dev_path": "dev.csv"}), "has trained on dev pairs of it: both"),
        (run(PAIRS), run(PAIRS, ["other.csv", "mine.csv"]), "has trained on dev pairs of it: both"),
        (run(PAIRS), run({**PAIRS, "seed": 2}, {"mine.csv": 2}), "has trained on dev pairs of it: both"),
        (run(PAIRS), run({**PAIRS, "seed": 2}, "other.csv"), None),
        (run(PAIRS), run(PAIRS, "./mine.csv"), None),
        (run({**PAIRS, "dev_fraction": 0}), run(PAIRS), None),  # STS-B dev selects
        (run({**PAIRS, "dev_path": "dev.csv"}), run({**PAIRS, "seed": 2, "dev_path": "dev.csv"}), None),
        (
            run({**PAIRS, "dev_path": "dev.csv"}),
            run(PAIRS, ["./dev.csv"]),
            "has trained on the dev pairs of it (",
        ),
    ],
)
def test_reasons(selecting: dict[str, object], trained: dict[str, object], expected: str | None) -> None:
    found = describe_seen("it", OmegaConf.create(selecting), OmegaConf.create(trained))
    assert found is None if expected is None else str(found).startswith(expected)
