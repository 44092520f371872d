"""Configurations: all compose and check, and mistakes are named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.build import build, name_setting
from sts_lightning.config.keys import flat_keys, suggest
from sts_lightning.config.machine import decide
from sts_lightning.config.validate import check_config
from sts_lightning.data.module import SentenceDataModule
from sts_lightning.errors import ConfigError
from sts_lightning.losses import all_losses
from sts_lightning.training.trainer import make_plan
from sts_lightning.workflows.trainer_checks import check_trainer
from sts_lightning.workflows.validate import check_fit
from tests.conftest import CONF

Config = Callable[..., DictConfig]


def choices(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


@pytest.mark.parametrize(
    "override",
    [
        f"{group}={choice}"
        for group in ("model", "prompt", "regularizer", "trainer", "logger", "callbacks")
        for choice in choices(group)
    ],
)
def test_every_choice_composes_and_fits_its_target(override: str, config: Config) -> None:
    check_config(config(override))


@pytest.mark.parametrize("data", choices("data"))
@pytest.mark.parametrize("loss", sorted(all_losses()))
def test_loss_and_data_fit_or_are_refused(loss: str, data: str, config: Config) -> None:
    if loss == "mix":
        pytest.skip("its needs are those of its terms")
    cfg = config(f"data={data}", f"loss={loss}", "path=mine.csv")
    check_config(cfg)
    head, source = build("loss", cfg.loss), build("data", cfg.data)
    assert isinstance(source, SentenceDataModule)
    if source.label in head.labels and source.num_views in head.views:
        check_fit(head, source)
    else:
        with pytest.raises(ConfigError, match=r"needs .* but .* gives .* Losses that fit this data: \w+"):
            check_fit(head, source)


@pytest.mark.parametrize("name", choices("experiment"))
def test_every_experiment_composes(name: str, config: Config) -> None:
    check_config(config(f"experiment={name}", "name=x"))


@pytest.mark.parametrize("name", sorted(path.name for path in CONF.rglob("*.yaml")))
def test_every_yaml_opens_with_what_it_is(name: str) -> None:
    for path in CONF.rglob(name):
        assert path.read_text().startswith("#"), path


@pytest.mark.parametrize(
    ("overrides", "key", "named"),
    [
        (["loss=infonce", "loss.temperature=hot"], "loss.temperature", ["'hot'", "float"]),
        (["data.filter=exat"], "data.filter", ["exat", "none, exact, normalized"]),
        (["model.pooling=max"], "model.pooling", ["max", "cls, mean"]),
        (["optim.schedule=step"], "optim.schedule", ["step", "linear, cosine"]),
        (["evaluation.aggregate=median"], "evaluation.aggregate", ["median", "all, mean, wmean"]),
        (["precision=8-bit"], "trainer.precision", ["8-bit"]),
        (["optim.lr=nan"], "optim.lr", ["nan"]),
        (["seed=-1"], "seed", ["-1"]),
        (["optim.betas=[0.9]"], "optim.betas", ["2", "1"]),
        (["data=pairs_file"], "data.path", []),
        (["+loss.temprature=1"], "loss.temprature", ["official"]),
        (["loss=infonce", "+loss.temprature=1"], "loss.temprature", ["temperature?"]),
        (["loss._target_=sts_lightning.losses.none.None"], "loss._target_", ["losses.none.None"]),
        (["data.batch_size=many"], "data.batch_size", ["'many'", "int"]),
    ],
)
def test_mistakes_are_named(overrides: list[str], key: str, named: list[str], config: Config) -> None:
    with pytest.raises(ConfigError) as caught:
        check_config(config(*overrides))
    assert caught.value.key == key
    assert key in str(caught.value)
    assert all(text in str(caught.value) for text in named)


def test_a_check_resolves_a_copy(config: Config) -> None:
    cfg = config()
    before = OmegaConf.to_container(cfg, resolve=False)
    checked = check_config(cfg)
    assert OmegaConf.to_container(cfg, resolve=False) == before
    assert OmegaConf.to_container(checked, resolve=False) == OmegaConf.to_container(cfg, resolve=True)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["trainer.devices=0"], "must be positive, or -1 for all"),
        (["trainer.devices=-1"], "without any give the number of processes"),
        (["trainer.micro_batch_size=24"], r"does not divide data\.batch_size=64; choose among 1, 2, 4, 8"),
        (["trainer=gpu"], "no CUDA device is visible"),
        (["trainer.chunk_tokens=many"], "must be at least 1, or auto"),
        (["precision=16-mixed"], "needs a CUDA device"),
        (["+trainer.extra.accumulate_grad_batches=2"], "raise data.batch_size instead"),
        (["trainer.save_every=0"], "at least 1"),
        (["trainer.keep_every=0"], "at least 1, or null"),
    ],
)
def test_settings_that_cannot_run(overrides: list[str], message: str, config: Config) -> None:
    with pytest.raises(ConfigError, match=message):
        cfg = config(*overrides)
        check_trainer(cfg.trainer, decide(cfg.trainer), cfg.data.batch_size)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], (85, 170, 21)),
        (["trainer.max_steps=20"], (85, 20, 20)),
        (["trainer.limit_train_batches=10", "trainer.val_every=0.5"], (10, 20, 5)),
        (["trainer.val_every=30"], (85, 170, 30)),
        (["trainer.max_epochs=-1", "trainer.max_steps=300"], (85, 300, 21)),
    ],
)
def test_plan(overrides: list[str], expected: tuple[int, int, int], config: Config) -> None:
    plan = make_plan(config(*overrides).trainer, 85)
    assert (plan.epoch_steps, plan.total_steps, plan.val_steps) == expected


def test_suggestions(config: Config) -> None:
    keys = flat_keys(config())
    assert suggest("max_steps", keys) == "Did you mean trainer.max_steps?"
    assert "optim.warmup" in suggest("optim.warmpu", keys)
    assert "loss._target_" not in keys


MIX = [
    "loss=mix",
    "+loss.terms.a._target_=sts_lightning.losses.spearman.SpearmanLoss",
    "+loss.terms.b._target_=sts_lightning.losses.ibn.IBNLoss",
    "+loss.weights.a=1",
    "+loss.weights.b=0.5",
]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("+loss.terms.a.temperature=0", r"^loss\.terms\.a\.temperature must be positive"),
        ("+loss.terms.b.positive_from=6", r"^loss\.terms\.b\.positive_from must lie in"),
        ("loss.weights.a=-1", r"^loss\.weights must be finite"),
        ("+loss.terms.c._target_=sts_lightning.losses.l1.L1Loss", r"^loss\.weights must have the names"),
    ],
)
def test_an_error_of_a_nested_part_names_its_full_path(override: str, message: str, config: Config) -> None:
    with pytest.raises(ConfigError, match=message):
        build("loss", config(*MIX, override).loss)


def test_nested_parts_are_built_in_their_order(config: Config) -> None:
    loss = build("loss", config(*MIX, "+loss.terms.a.temperature=0.3").loss)
    assert list(loss.terms) == ["a", "b"]
    assert loss.terms["a"].temperature == 0.3
    assert loss.weights == {"a": 1, "b": 0.5}


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("scale must be positive."), r"^loss\.scale must be positive\."),
        (ValueError("AnglELoss needs embeddings of even size."), r"^loss: AnglELoss needs"),
    ],
)
def test_an_error_in_terms_of_an_argument_continues_the_path(error: ValueError, message: str) -> None:
    with pytest.raises(ConfigError, match=message), name_setting("loss", ["scale"]):
        raise error
