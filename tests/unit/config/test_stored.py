"""Stored configurations: those of other versions, and what of one needs the user's word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.check import check_config
from sts_lightning.config.stored import MOVED, check, read_settings, requests
from sts_lightning.core.errors import CheckpointError, UntrustedError
from sts_lightning.losses import all_losses
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.state import differing
from tests.conftest import OF_ENCODER, SHORT_RUN

Config = Callable[..., DictConfig]

SETTINGS = (
    *(*SHORT_RUN, "name=x", "loss=infonce", "data.kind=triplets", "optim.warmup=0.3", "callbacks=ema"),
    *("evaluation.aggregate=mean", "trainer.save_every=7", "prompt.denoise=shift"),
)


@pytest.fixture
def stored(config: Config, tmp_path: Path) -> tuple[RunFolder, dict[str, Any]]:
    """A run folder, and its configuration as plain values."""
    run = RunFolder(tmp_path)
    run.save_config(config(*SETTINGS))
    return run, run.settings()


GROUPS = (
    "",
    "model",
    "prompt",
    "loss",
    "data",
    "optim",
    "trainer",
    "evaluation",
    "callbacks.ema",
)


def test_settings_that_this_version_lacks_are_one_warning(
    stored: tuple[RunFolder, dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    run, values = stored
    expected = run.load_config()
    assert not caplog.records
    cfg = OmegaConf.create(values)
    later = [f"{group}.later".removeprefix(".") for group in GROUPS]
    for key in later:
        OmegaConf.update(cfg, key, 1, force_add=True)
    OmegaConf.save(cfg, run.config_file)
    assert run.load_config() == expected
    (record,) = caplog.records
    assert set(record.getMessage().partition("lacks it: ")[2].split(", ")) == set(later)


@pytest.mark.parametrize(
    ("key", "default"),
    [
        *(("papers", None), ("regularizer", None), ("trainer.keep_every", None), ("optim.stretch", 1.0)),
        *((key, None) for key in ("model.layers", "loss.temperature", "data.train_size")),  # of the class
        *((key, None) for key in ("callbacks.ema.use_buffers", "logger.tensorboard.version")),
    ],
)
def test_settings_that_a_run_lacks_have_their_defaults(
    key: str, default: object, stored: tuple[RunFolder, dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    run, values = stored
    parent, _, name = key.rpartition(".")
    cfg = OmegaConf.create(values)
    del (OmegaConf.select(cfg, parent) if parent else cfg)[name]
    run.save_config(cfg)
    assert OmegaConf.select(run.load_config(), key) == default
    assert not caplog.records


def test_one_step_as_version_0_3_stored_it(stored: tuple[RunFolder, dict[str, Any]]) -> None:
    run, values = stored
    values["trainer"]["val_every"] = values["optim"]["warmup"] = 1.0
    OmegaConf.save(OmegaConf.create(values), run.config_file)
    cfg = check_config(run.load_config())
    assert (repr(cfg.trainer.val_every), repr(cfg.optim.warmup)) == ("1", "1")


def test_the_divided_loss_as_version_0_3_stored_it(stored: tuple[RunFolder, dict[str, Any]]) -> None:
    run, values = stored
    values["loss"] = {**DIVIDED, "inner": infonce(), "parts": 4, "drop_repeats": True}
    run.config_file.write_text(yaml.safe_dump(values))
    loss = run.load_config().loss
    assert loss.drop_duplicates is True
    assert loss.shards == 4
    assert not {"drop_repeats", "parts"} & set(loss)


def infonce(**settings: Any) -> dict[str, Any]:
    """The loss as version 0.3 stored it."""
    return {"_target_": "sts_lightning.losses.infonce.InfoNCELoss", **settings}


ON, OFF = infonce(mask_repeats=True), infonce(mask_repeats=False)
DIVIDED, JOINT, MIX = (
    {"_target_": f"sts_lightning.losses.{kind}"}
    for kind in ("divided.DividedLoss", "joint.JointLoss", "mix.MixLoss")
)


@pytest.mark.parametrize(
    ("loss", "expected", "left_out"),
    [
        (ON, {"": True}, ""),
        (infonce(), {"": None}, ""),
        ({**DIVIDED, "inner": OFF, "parts": 4}, {"": False}, ""),
        ({**JOINT, "parts": {"a": OFF, "b": infonce()}}, {"a": False, "b": None}, ""),
        (
            {**MIX, "terms": {"a": ON, "b": OFF}},
            {"": None},
            "loss.terms.a.mask_repeats, loss.terms.b.mask_repeats",
        ),
    ],
)
def test_the_mask_of_copies_as_version_0_3_stored_it(
    loss: dict[str, Any],
    expected: dict[str, bool | None],
    left_out: str,
    stored: tuple[RunFolder, dict[str, Any]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    run, values = stored
    data, parts = values["data"], expected.keys() - {""}
    del data["mask_repeats"]
    joint = {"_target_": "sts_lightning.data.joint.joint", "parts": {name: {**data} for name in parts}}
    values |= {"loss": loss, "data": joint if parts else data}
    run.config_file.write_text(yaml.safe_dump(values))
    cfg = run.load_config()
    found = {name: (cfg.data.parts[name] if name else cfg.data).get("mask_repeats") for name in expected}
    assert found == expected
    assert ("left out, since this version lacks it" in caplog.text) == bool(left_out)
    assert left_out in caplog.text


@pytest.mark.parametrize("mask", [True, False])
def test_a_run_of_version_0_3_is_the_same_run(mask: bool, config: Config, tmp_path: Path) -> None:
    run, same, other = (
        RunFolder(tmp_path),
        *(config(*SETTINGS, f"data.mask_repeats={each}") for each in (mask, not mask)),
    )
    run.save_config(same)
    values = yaml.safe_load(run.config_file.read_text())
    del values["data"]["mask_repeats"]
    values["loss"] |= infonce(mask_repeats=mask)
    run.config_file.write_text(yaml.safe_dump(values))
    assert differing(run, same) == []
    assert differing(run, other) == ["data.mask_repeats"]


def test_settings_without_a_default(stored: tuple[RunFolder, dict[str, Any]]) -> None:
    run, values = stored
    for key in ("loss", "data", "name", "evaluation"):
        run.save_config(OmegaConf.create({name: value for name, value in values.items() if name != key}))
        with pytest.raises(CheckpointError, match=rf"is not the configuration of a run: it has no {key}\.$"):
            run.load_config()
    for group, key in (({"lr": "fast"}, r"optim\.lr"), (3, "optim")):
        run.save_config(OmegaConf.create(values | {"optim": group}))
        with pytest.raises(CheckpointError, match=rf"its {key} cannot be understood.*Correct {key} "):
            run.load_config()


def test_one_message_names_all_that_needs_the_word(tmp_path: Path) -> None:
    cfg = {
        "model": {"_target_": "my.model", "trust_remote_code": True},
        "loss": {"_target_": "own.MyLoss"},
        "callbacks": {"x": {"_partial_": True}},
        "data_root": "${oc.env:HOME}",
        **OF_ENCODER,
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(cfg))
    with pytest.raises(UntrustedError) as caught:
        RunFolder(tmp_path).load_config()
    message = str(caught.value)
    for asked in ("my.model", "own.MyLoss", "x._partial_", "data_root", "trust_remote_code: True (code that"):
        assert asked in message
    assert "trust=true" in message
    check(cfg, "here", trust=True)


def found(path: Path, target: Any, **arguments: Any) -> bool:
    """Whether a target needs no consent at a place."""
    place: dict[str, Any] = {}
    node = place
    for key in path.parts:
        node = node.setdefault(key, {})
    node |= {"_target_": target, **arguments}
    return not list(requests(place))


def test_every_loss_is_known() -> None:
    """A new class needs its file in conf/ alone."""
    for loss in all_losses().values():
        assert found(Path("loss"), f"{loss.__module__}.{loss.__qualname__}")
        assert found(Path("loss/terms/one"), f"{loss.__module__}.{loss.__qualname__}")


@pytest.mark.parametrize(
    "target",
    [
        "sts_lightning.losses.regression.ZeroZoneLoss",  # imported there
        "sts_lightning.losses.mix.torch.load",
        "sts_lightning.losses.mix",
        "sts_lightning.losses...mix.MixLoss",
        "sts_lightning.losses.mix.MixLoss\n",
        "sts_lightning.losses.mix.MixLoss.__init__",
        "torch.nn.CosineEmbeddingLoss",
        "sts_lightning.data.sts_train.sts_train",
        "",
        None,
        ["sts_lightning.losses.mix.MixLoss"],
    ],
)
def test_only_exact_names_are_known(target: object) -> None:
    assert not found(Path("loss"), target)


STOPPING = "lightning.pytorch.callbacks.EarlyStopping"
BOARD = "lightning.pytorch.loggers.TensorBoardLogger"
LORA = "peft.LoraConfig"


@pytest.mark.parametrize(
    ("place", "target", "known"),
    [
        ("model/adapter", LORA, True),
        ("model/adapter", "peft.tuners.LoraConfig", False),
        ("model/adapter", "peft.get_peft_model", False),
        ("model/adapter", "peft.IA3Config", False),
        ("model", LORA, False),
        ("model/config", LORA, False),
        ("model/other", LORA, False),
        ("model/other", "sts_lightning.testing.tiny_bert.tiny_bert", False),
        ("model", "sts_lightning.testing.tiny_bert.tiny_bert", True),
        ("model", "sts_lightning.testing.tiny_decoders._load", False),
        ("callbacks/mine", STOPPING, True),
        ("callbacks", STOPPING, False),
        ("callbacks/mine/deeper", STOPPING, False),
        ("logger/mine", STOPPING, False),
        ("logger/mine", BOARD, True),
        ("logger/mine/name", BOARD, False),
        ("optim", "sts_lightning.losses.mix.MixLoss", False),
        ("data/parts/one", "sts_lightning.data.sts_train.sts_train", True),
    ],
)
def test_each_class_is_known_at_its_place_only(place: str, target: str, known: bool) -> None:
    assert found(Path(place), target) == known


@pytest.mark.parametrize(
    ("place", "target", "name", "value", "known"),
    [
        ("model/adapter", LORA, "target_modules", ["query", "value"], True),
        ("model/adapter", LORA, "rank_pattern", {"query": 4}, True),
        ("model/adapter", LORA, "lora_dropout", 0.1, True),
        ("model/adapter", LORA, "megatron_config", {}, True),
        ("model/adapter", LORA, "megatron_config", {"name": 1}, False),
        ("model/adapter", LORA, "megatron_config", True, False),
        ("model/adapter", LORA, "eva_config", {"rho": 2}, False),
        ("model/adapter", LORA, "target_modules", ["query", {"_target_": LORA}], False),
        ("callbacks/mine", STOPPING, "monitor", "dev/score", True),
        ("logger/mine", BOARD, "name", "mine", True),
        ("logger/mine", BOARD, "name", "../mine", False),
        ("logger/mine", BOARD, "version", "/mine", False),
        ("logger/mine", BOARD, "save_dir", "mine", False),
    ],
)
def test_arguments_of_foreign_classes(place: str, target: str, name: str, value: object, known: bool) -> None:
    assert found(Path(place), target, **{name: value}) == known


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [
        ("_attn_implementation", "sdpa", True),
        ("attn_implementation", "org/kernel", False),
        ("hidden_act", "relu", True),
        ("hidden_dropout_prob", 0.0, True),
        ("rope_scaling", {"rope_type": "linear", "factor": 2.0}, True),
        ("layers", [1, 2], True),
        ("layers", ["x"], False),
        ("text_config", {"x": 1}, False),
    ],
)
def test_settings_of_a_models_configuration(name: str, value: object, known: bool) -> None:
    assert (not list(requests({"model": {"config": {name: value}}}))) == known


def test_a_class_that_moved_is_known_by_its_old_name(tmp_path: Path) -> None:
    for old, new in MOVED.items():
        (tmp_path / "config.yaml").write_text(
            f"loss:\n  terms: {{a: {{_target_: sts_lightning.{old}, x: 1}}}}\n"
            f"model: {{_target_: lightning.{old}}}\n"
        )
        values = read_settings(tmp_path / "config.yaml")
        assert values["loss"]["terms"]["a"] == {"_target_": f"sts_lightning.{new}", "x": 1}
        assert values["model"] == {"_target_": f"lightning.{old}"}
        assert callable(get_object(f"sts_lightning.{new}"))


def test_what_the_papers_code_does_was_a_setting(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "loss: {_target_: sts_lightning.losses.l1.L1Loss, clamp: left, official: true}\n"
        "auxiliary: {_target_: sts_lightning.losses.pearson.PearsonLoss, official: false}\n"
        "other: {_target_: mine.Loss, official: true}\n"
        "queue: {_target_: sts_lightning.training.auxiliary.momentum_queue.MomentumQueue, official: true}\n"
        "data: {_target_: sts_lightning.data.sentences.sentences, official_repetition: true}\n"
        "trainer: {official_gather: false}\n"
    )
    assert read_settings(tmp_path / "config.yaml") == {
        "loss": {"_target_": "sts_lightning.papers.losses.paper_code.PaperCodeL1Loss", "clamp": "left"},
        "auxiliary": {"_target_": "sts_lightning.losses.pearson.PearsonLoss"},
        "other": {"_target_": "mine.Loss", "official": True},
        "queue": {"_target_": "sts_lightning.papers.auxiliary.momentum_queue.PaperCodeMomentumQueue"},
        "data": {"_target_": "sts_lightning.data.sentences.sentences", "paper_code_repetition": True},
        "trainer": {},
    }
