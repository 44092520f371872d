"""What needs the user's word, and that the word is enough."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig

import sts_lightning
from sts_lightning.config.folders import VARIABLE
from sts_lightning.core.errors import ConfigError, UntrustedError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.runs.test_consent import own as own
from tests.support.run_entries import SHORT, edit, train_py
from tests.support.two_runs import ONE, TWO, write_experiments

Config = Callable[..., DictConfig]


def test_code_of_a_model_with_the_users_word(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support.run_changes import model_folder, of_that_folder

    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    marker, run = tmp_path / "marker", tmp_path / "run"
    train_in(run, config(*SHORT[:-1]))
    model_folder(run / "model", marker)
    path = run / "model" / "tokenizer_config.json"
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "auto_map"}))
    edit(run / "config.yaml", of_that_folder(run / "model", trust_remote_code=True))
    assert type(sts_lightning.load(run).backbone).__name__ == "BertModel"
    assert not marker.exists()
    encoder = sts_lightning.load(run, trust_remote_code=True)
    assert type(encoder.backbone).__name__ == "Model"
    assert marker.exists()


@pytest.mark.usefixtures("keeps_state")
def test_a_first_run_with_a_class_of_the_users_own(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that composes it needs no consent; the one that resumes it does."""
    first = f"{ONE}loss: {{_target_: {own}}}\n"
    write_experiments(tmp_path / "conf", one=first, two=TWO.replace("[one]", "[stage2, override /data: toy]"))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "conf"))
    two, settings = tmp_path / "runs" / "two", [text for text in SHORT if not text.startswith("name=")]
    train_py(two, *settings, "experiment=two")
    one = Path(RunFolder(two).settings()["init_from"])
    for run in (one, two):
        (run / "metrics.json").unlink()
    with pytest.raises(UntrustedError, match=rf"{one.name}/config\.yaml"):
        train_py(tmp_path / "out", f"resume={two}")
    train_py(tmp_path / "out", f"resume={two}", "trust=true")
    for run in (one, two):
        (run / "metrics.json").unlink()
    train_py(two, *settings, "experiment=two")
    assert (two / "metrics.json").is_file()


def test_resume_takes_no_other_settings(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"leave out seed=2\."):
        train_py(tmp_path / "out", f"resume={tmp_path}", "trust=true", "seed=2")


@pytest.mark.usefixtures("keeps_state")
@pytest.mark.parametrize(
    "more",
    [
        ["callbacks=[ema,rank_monitor]", "logger=default", "+trainer.extra.benchmark=true"],
        ["+model.adapter._target_=peft.LoraConfig", "+model.adapter.target_modules=[query]"],
    ],
)
def test_a_runs_own_folder_passes(more: list[str], config: Config, tmp_path: Path) -> None:
    """With callbacks, loggers, arguments of Lightning's Trainer and an adapter."""
    run = tmp_path / "run"
    train_in(
        run,
        config(*[text for text in SHORT[:-1] if "logger=default" not in more or text != "logger=csv"], *more),
    )
    for name in ("best", "last"):
        torch.load(run / "checkpoints" / f"{name}.ckpt", weights_only=True)
    (run / "metrics.json").unlink()
    train_py(tmp_path / "out", f"resume={run}")
    assert (run / "metrics.json").is_file()
