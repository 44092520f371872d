"""Configurations: all compose and check, and mistakes are named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.check import check_config
from sts_lightning.config.compose import compose_job, compose_train
from sts_lightning.core.errors import ConfigError

Config = Callable[..., DictConfig]


@pytest.mark.parametrize(
    ("overrides", "key", "named"),
    [
        (["loss=infonce", "loss.temperature=hot"], "loss.temperature", ["hot", "valid number"]),
        (["data.filter=exat"], "data.filter", ["exat", "'none', 'exact' or 'normalized'"]),
        (["model.pooling=max"], "model.pooling", ["max", "'cls', 'mean'"]),
        (["optim.schedule=step"], "optim.schedule", ["step", "'linear', 'cosine'"]),
        (["evaluation.aggregate=median"], "evaluation.aggregate", ["median", "'all', 'mean' or 'wmean'"]),
        (["precision=8-bit"], "precision", ["8-bit"]),
        (["optim.lr=nan"], "optim.lr", ["nan"]),
        (["seed=-1"], "seed", ["-1"]),
        (["optim.betas=[0.9]"], "optim.betas", ["at least 2 items"]),
        (["loss=cosent", "+loss.temprature=1"], "loss.temprature", ["scale"]),
        (["loss=infonce", "+loss.temprature=1"], "loss.temprature", ["temperature?"]),
        (["loss._target_=sts_lightning.losses.none.None"], "loss._target_", ["losses.none.None"]),
        (["data.batch_size=many"], "data.batch_size", ["many", "valid integer"]),
    ],
)
def test_mistakes_are_named(overrides: list[str], key: str, named: list[str], config: Config) -> None:
    with pytest.raises(ConfigError) as caught:
        check_config(config(*overrides))
    assert caught.value.key == key
    assert key in str(caught.value)
    assert all(text in str(caught.value) for text in named)


def test_the_path_is_asked_for_as_it_is_typed(config: Config) -> None:
    with pytest.raises(ConfigError) as caught:
        check_config(config("data=pairs_file"))
    assert str(caught.value) == "path is required. Set it on the command line: path=..."


def test_a_setting_of_an_experiment_beside_another_loss_can_be_left_out(config: Config) -> None:
    mine = ["experiment=cotbert", "loss=decoupled"]  # as a loss of one's own, without the setting
    with pytest.raises(ConfigError, match=r"^loss\.positive_negatives: no such setting") as caught:
        check_config(config(*mine))
    assert caught.value.hint is not None
    assert "'~loss.positive_negatives'" in caught.value.hint
    check_config(config(*mine, "~loss.positive_negatives"))


def test_the_mask_of_copies_is_a_setting_of_the_data(config: Config) -> None:
    loss = ["loss=infonce", "data=nli_triplets"]
    with pytest.raises(ConfigError, match=r"^loss\.mask_repeats: no such setting") as added:
        check_config(config(*loss, "+loss.mask_repeats=false"))
    with pytest.raises(ConfigError, match=r"^loss\.mask_repeats: no such setting") as typed:
        compose_train([*loss, "loss.mask_repeats=false"])
    assert "data.mask_repeats" in str(typed.value.hint)
    assert "data.mask_repeats" in str(added.value.hint)


def test_a_check_resolves_a_copy(config: Config) -> None:
    cfg = config()
    before = OmegaConf.to_container(cfg, resolve=False)
    checked = check_config(cfg)
    assert OmegaConf.to_container(cfg, resolve=False) == before
    assert OmegaConf.to_container(checked, resolve=False) == OmegaConf.to_container(cfg, resolve=True)


def test_further_arguments_of_a_logger(config: Config) -> None:
    """Those that Lightning does not name, as wandb's entity, but passes on."""
    check_config(config("logger=wandb", "+logger.wandb.entity=team"))
    with pytest.raises(ConfigError, match=r"logger\.mlflow\.entity: no such setting"):
        check_config(config("logger=mlflow", "+logger.mlflow.entity=team"))


@pytest.mark.parametrize("debug", ["fast", "overfit", "profile"])
def test_a_debug_run_wins_over_the_experiment_and_not_over_the_command_line(
    debug: str, config: Config
) -> None:
    chosen = ["experiment=minilm_pairs", f"debug={debug}"]
    cfg = config(*chosen, "callbacks=rank_monitor")
    assert cfg.trainer.max_steps == {"fast": 2, "overfit": 100, "profile": 20}[debug]
    assert not cfg.evaluation.final
    assert cfg.logger == {}
    assert "rank_monitor" in cfg.callbacks
    assert ("overfit" in cfg.callbacks) == (debug == "overfit")
    assert cfg.prompt.template is not None
    check_config(cfg)
    typed = config(*chosen, "trainer.max_steps=3", "logger=tensorboard", "evaluation.final=true")
    assert typed.trainer.max_steps == 3
    assert list(typed.logger) == ["tensorboard"]
    assert typed.evaluation.final
    assert compose_job("train", (*chosen, "name=mine")).hydra.sweep.dir == "runs/debug-mine"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("+optim.lrr=1e-3", r"optim\.lrr: no such setting.*optim\.lr"),
        ("+trainer.accumulate_grad_batches=4", r"set by \+trainer\.extra\.accumulate_grad_batches"),
        ("+queue.size=4", r"queue: no such setting"),
        ("+model_nam=x", r"model_nam: no such setting. Did you mean model\?"),
        ("+data_r=x", r"data_r: no such setting"),  # others refer to data_root alone
    ],
)
def test_a_setting_that_nothing_reads(override: str, message: str, config: Callable[..., DictConfig]) -> None:
    with pytest.raises(ConfigError, match=message):
        check_config(config(override))


def test_a_setting_that_others_refer_to(config: Callable[..., DictConfig]) -> None:
    check_config(config("+width=1e-3", "optim.lr=${width}"))
    check_config(config("+trainer.extra.detect_anomaly=true", "callbacks=ema", "loss=infonce"))


@pytest.mark.parametrize(
    ("overrides", "lines"),
    [
        (
            ["+optim.lrr=1", "optim.lr=-1", "seed=-1", "evaluation.final=7", "loss=l1", "loss.spacing=x"],
            [
                "4 mistakes:",
                "optim.lrr: no such setting. Did you mean optim.lr?",
                "seed=-1: Input should be greater than or equal to 0.",
                "optim.lr=-1.0: Input should be greater than 0.",
                "evaluation.final=7: Input should be a valid boolean.",
            ],
        ),
        (
            ["model=encoder", "optim.lr=nan", "trainer.wise_ft=[nan]", "optim.schedule=cos"],
            [
                "4 mistakes:",
                "model.name is required. Set it on the command line: model.name=...",
                "optim.lr=nan: Input should be a finite number.",
                "optim.schedule=cos: Input should be 'linear', 'cosine' or 'constant_with_warmup'.",
                "trainer.wise_ft=[nan]: Input should be a finite number.",
            ],
        ),
        (
            ["data=pairs_file", "loss=cosent", "+loss.x=1", "data.batch_size=many"],
            [
                "3 mistakes:",
                "path is required. Set it on the command line: path=...",
                "loss.x: no such setting. There are: scale. '~loss.x' leaves out what an experiment sets.",
                "data.batch_size=many: Input should be a valid integer.",
            ],
        ),
    ],
)
def test_mistakes_are_told_together(overrides: list[str], lines: list[str], config: Config) -> None:
    with pytest.raises(ConfigError) as caught:
        check_config(config(*overrides))
    assert str(caught.value).split("\n  ") == lines
