"""Loading of encoders: from configurations, and from run folders without the training stack."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import sts_lightning
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_RUN
from tests.unit.models.test_loading import Config

HEAVY = (
    "peft",
    "lightning",
    "pytorch_lightning",
    "torchmetrics",
    "datasets",
    "sts_lightning.training",
    "sts_lightning.losses",
    "sts_lightning.data.module",
    "sts_lightning.data.table",
    "sts_lightning.workflows",
)

SCRIPT = """
import json, sys
import sts_lightning
light = "torch" not in sys.modules
vectors = sts_lightning.load(sys.argv[1]).encode(["A dog.", "A cat."])
imported = [name for name in sys.argv[2:] if name in sys.modules]
print(json.dumps({"light": light, "vectors": vectors.tolist(), "imported": imported}))
"""


def test_loading_a_run_imports_nothing_of_training(config: Config, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_in(
        run, config(*SHORT_RUN, "trainer.max_epochs=-1", "trainer.max_steps=2", "evaluation.final=false")
    )
    expected = sts_lightning.load(run).encode(["A dog.", "A cat."])
    command = [sys.executable, "-c", SCRIPT, str(run), *HEAVY]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["imported"] == []
    assert found["light"]
    np.testing.assert_allclose(found["vectors"], expected, atol=1e-6)
