"""What needs the user's word, and that the word is enough."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

import sts_lightning
from sts_lightning.config.trust import Trust, read_config, requests
from sts_lightning.core.errors import CheckpointError, UntrustedError
from sts_lightning.losses import all_losses
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from tests.conftest import CONF, OF_ENCODER


def test_one_message_names_all_that_has_to_be_added(tmp_path: Path) -> None:
    own = "own.MyLoss"
    cfg = {
        "model": {"_target_": "my.model", "trust_remote_code": True},
        "loss": {"_target_": own},
        "callbacks": {"x": {"_partial_": True}},
        **OF_ENCODER,
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(cfg))
    with pytest.raises(UntrustedError) as caught:
        RunFolder(tmp_path).load_config()
    message = str(caught.value)
    names = ["callbacks.x._partial_", "my.model", own]
    options = " ".join(f"--trust {name}" for name in names)
    assert f"{options} --trust-remote-code (train, eval, sts-lightning export)" in message
    assert f"trust={names!r}, trust_remote_code=True (sts_lightning.load)" in message
    trust = Trust.of(names, True)
    assert read_config(tmp_path / "config.yaml", trust).loss._target_ == own
    for less in (Trust.of(names, False), Trust.of(names[:2], True), Trust.of(names[1:], True)):
        with pytest.raises(UntrustedError):
            RunFolder(tmp_path).load_config(less)


@pytest.mark.parametrize("value", ["${oc.env:HOME}", "x'; rm -rf ~; '.y", ["a"], {"a": "b"}])
def test_no_consent_is_offered_for_what_no_run_has(value: object, tmp_path: Path) -> None:
    """In particular no text that a shell would run when it is pasted."""
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"loss": {"_target_": value}}))
    with pytest.raises(UntrustedError, match="no run of this project has") as caught:
        read_config(path, Trust.of([str(value)], True))
    assert "trust=" not in str(caught.value)


def found(path: Path, target: str) -> bool:
    """Whether a target needs no consent at a place."""
    place: dict[str, Any] = {}
    node = place
    for key in path.parts:
        node = node.setdefault(key, {})
    node["_target_"] = target
    return not requests(place)


def test_every_loss_is_known() -> None:
    """A new class needs its file in conf/ alone."""
    for loss in all_losses().values():
        assert found(Path("loss"), f"{loss.__module__}.{loss.__qualname__}")
        assert found(Path("loss/terms/one"), f"{loss.__module__}.{loss.__qualname__}")


@pytest.mark.parametrize(
    "target",
    [
        "sts_lightning.losses.translated_relu.ZeroZoneLoss",  # imported there
        "sts_lightning.losses.mix.torch.load",
        "sts_lightning.losses.mix",
        "sts_lightning.losses...mix.MixLoss",
        "sts_lightning.losses.mix.MixLoss\n",
        "sts_lightning.losses.mix.MixLoss.__init__",
        "torch.nn.CosineEmbeddingLoss",
        "sts_lightning.data.sts_train.sts_train",
    ],
)
def test_only_exact_names_are_known(target: str) -> None:
    assert not found(Path("loss"), target)


def test_each_class_is_known_at_its_place_only() -> None:
    assert found(Path("model/adapter"), "peft.LoraConfig")
    assert not found(Path("model"), "peft.LoraConfig")
    assert not found(Path("model/config"), "peft.LoraConfig")
    assert not found(Path("model/adapter"), "peft.tuners.LoraConfig")
    assert not found(Path("model/adapter"), "peft.get_peft_model")
    assert not found(Path("model/adapter"), "peft.IA3Config")
    assert found(Path("callbacks/mine"), "lightning.pytorch.callbacks.EarlyStopping")
    assert not found(Path("logger/mine"), "lightning.pytorch.callbacks.EarlyStopping")
    assert not found(Path("callbacks"), "lightning.pytorch.callbacks.EarlyStopping")
    assert not found(Path("callbacks/mine/deeper"), "lightning.pytorch.callbacks.EarlyStopping")
    assert not found(Path("model"), "sts_lightning.testing.tiny_decoders._load")
    assert not found(Path("optim"), "sts_lightning.losses.mix.MixLoss")
    assert not found(Path("reproduce/../loss"), "sts_lightning.losses.mix.MixLoss")
    assert not found(Path("experiment"), "sts_lightning.losses.mix.MixLoss")


def test_an_encoder_alone_has_no_other_parts(tmp_path: Path) -> None:
    """They are not even in what is read, so that nothing builds them by mistake."""
    path = tmp_path / "config.yaml"
    foreign = {group: {"_target_": "own.Class"} for group in ("loss", "regularizer", "auxiliary")}
    named = {group: {"mine": {"_target_": "own.Class"}} for group in ("logger", "callbacks")}
    path.write_text(yaml.safe_dump({"seed": 1, "trainer": {"extra": {"plugins": "x"}}, **foreign, **named}))
    assert read_config(path, encoder_only=True) == {"seed": 1}
    with pytest.raises(UntrustedError, match=r"own\.Class"):
        read_config(path)


def test_the_encoder_of_a_run_of_another_version(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = RunFolder(tmp_path)
    model: Any = OmegaConf.to_container(OmegaConf.load(CONF / "model" / "tiny_bert.yaml"))
    cfg: dict[str, Any] = copy.deepcopy({"model": model, **OF_ENCODER})
    cfg["prompt"]["layer"] = -1
    run.save_config(OmegaConf.create(cfg))
    expected = run.load_config(encoder_only=True)
    assert not caplog.text
    del cfg["prompt"]["layer"], cfg["evaluation"]["max_length"], cfg["model"]["pooling"]
    cfg["prompt"]["later"] = cfg["evaluation"]["later"] = 1  # in a prompt an argument of the model's class
    cfg["model"]["later"] = 1
    run.save_config(OmegaConf.create(cfg))
    adapted = run.load_config(encoder_only=True)
    del expected.model["pooling"]  # not filled in: building takes the default of the class
    assert adapted == expected
    for group in ("prompt", "evaluation", "model"):
        assert f"{group}.later is left out" in caplog.text
    assert "no prompt.layer, which is" in caplog.text


@pytest.mark.parametrize("made_by", [None, "0.2.0", sts_lightning.__version__])
def test_what_cannot_be_understood_is_an_error(made_by: str | None, tmp_path: Path) -> None:
    """The hint is never to install what is installed."""
    run = RunFolder(tmp_path)
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg: Any = OmegaConf.to_container(compose("train", ["model=tiny_bert", "data=toy", "name=x"]))
    cfg["optim"]["lr"] = "fast"
    run.save_config(OmegaConf.create(cfg))
    if made_by is not None:
        details = {"versions": {"sts-lightning": made_by}}
        run.save_metrics(RunMetrics(None, {"spearman": 50.0}, details))
    with pytest.raises(CheckpointError, match=r"its optim.lr cannot be understood") as caught:
        run.load_config()
    assert ("pip install 'sts-lightning==0.2.0'" in str(caught.value)) == (made_by == "0.2.0")
    assert ("pip install" in str(caught.value)) == (made_by == "0.2.0")
    cfg["optim"]["lr"] = 1e-3
    for key in ("loss", "optim"):
        run.save_config(OmegaConf.create({name: value for name, value in cfg.items() if name != key}))
        with pytest.raises(CheckpointError, match=f"it has no {key}, which has no default"):
            run.load_config()
    del cfg["optim"]["lr"]
    run.save_config(OmegaConf.create(cfg))
    assert run.load_config().optim.lr == 5e-5
