"""Messages of overrides that do not fit the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.conf_folders import VARIABLE
from sts_lightning.config.composing import composing
from sts_lightning.config.composition_errors import explain
from sts_lightning.errors import ConfigError
from sts_lightning.planning.compose import compose_runs

CASES = {
    "optim.lr=abc": "optim.lr=abc is not of type float.",
    "++optim.lr=abc": "optim.lr=abc is not of type float.",
    "optim.lr={a:1}": "optim.lr={a:1} is not of type float.",
    "seed=1.5": "seed=1.5 is not of type int.",
    "data_root=[1]": "data_root=[1] is not of type str.",
    "stages=x": "stages=x is not of type dict.",
    "trainer.save_every=null": "trainer.save_every=null: trainer.save_every needs a value; leave it out",
    "optim=[1]": "optim=[1]: optim has settings of its own, such as optim.lr.",
    "optim=null": "optim=null: optim has settings of its own, such as optim.lr.",
    "optim.lrr=1": r"optim.lrr: no such setting. Did you mean optim.lr?",
    "stages.first.seed=1": "stages.first.seed: no such setting. A stage's settings are added with +",
    "hydra.sweep.dri=x": "hydra.sweep.dri: no such setting. Did you mean hydra.sweep.dir",
}


@pytest.mark.parametrize("override", CASES)
def test_a_wrong_override_is_named_as_given(override: str) -> None:
    given = ["data=toy", override]
    with pytest.raises((HydraException, OmegaConfBaseException)) as caught, composing():
        compose("train", given)
    assert str(explain(caught.value, "train", given)).startswith(CASES[override])


def test_a_setting_of_a_stage() -> None:
    with pytest.raises(
        ConfigError, match=r"^stages\.a\.optim.lrr: no such setting\. Did you mean optim.lr\?"
    ):
        compose_runs(["+stages.a.experiment=stage2", "+stages.a.optim.lrr=3"])


def test_a_file_of_the_users_that_is_no_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loss").mkdir()
    (tmp_path / "loss" / "mine.yaml").write_text("_target_: a\n  b: 1\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(ConfigError, match=r"loss/mine.yaml, line 2: not valid YAML \(mapping values"):
        compose_runs(["loss=mine"])
