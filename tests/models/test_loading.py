"""Loading of encoders: from configurations, and from run folders without the training stack."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from omegaconf import DictConfig

import sts_lightning
from sts_lightning.core.errors import ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.workflows.command import train_in
from tests.conftest import SHORT_RUN

Config = Callable[..., DictConfig]

HEAVY = (
    "peft",
    "lightning",
    "pytorch_lightning",
    "torchmetrics",
    "datasets",
    "sts_lightning.training",
    "sts_lightning.losses",
    "sts_lightning.data",
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


def test_the_package_exposes_its_public_names() -> None:
    assert sts_lightning.SentenceEncoder is SentenceEncoder
    assert sts_lightning.__version__[0].isdigit()
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = sts_lightning.no_such_name


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.max_length=2"], r"^model\.max_length must be at least 3, got 2"),
        (["model.max_length=1000"], r"^model\.max_length 1000 .*at most"),
        (["model.pooling=mask_token"], r"^model\.pooling 'mask_token' needs a template"),
        (["prompt.layer=-9"], r"^prompt\.layer must lie between -2 and -1, the last layer, got -9"),
        (["prompt.denoise=pad"], r"^prompt\.denoise 'pad' needs a template"),
        (["prompt.view_templates=[a]"], r"^prompt\.view_templates need a template"),
        (["+model.bidirectional_layers=1"], r"^model\.bidirectional_layers must be 0: BertModel"),
        (
            ["model.adapter={_target_: peft.LoraConfig, target_modules: [nowhere]}"],
            r"^model\.adapter does not fit BertModel",
        ),
    ],
)
def test_errors_name_the_key_of_the_setting(overrides: list[str], message: str, config: Config) -> None:
    cfg = config("model=tiny_bert", "data=toy", *overrides)
    with pytest.raises(ConfigError, match=message):
        build_encoder(cfg.model, cfg.prompt)


@pytest.mark.parametrize("source", ["owner/name@seed-1", "owner/name@v1.0", "owner/name@refs/pr/2", "o/n"])
def test_a_revision_of_a_model_on_the_hub(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def found(name: str, **settings: object) -> SentenceEncoder:
        asked.append(name)
        return tiny_bert()

    monkeypatch.setattr("sts_lightning.models.loading.pipeline.from_pipeline", found)
    sts_lightning.load(source)
    assert asked == [source]
