"""The two variants of the experiments of STS-Regression: the paper's method, and what its code does."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import pytest
from omegaconf import DictConfig

from sts_lightning.config.check import check_config, flatten
from sts_lightning.config.compose import check_choices, compose_train
from sts_lightning.config.identity import RESULT, configuration_hash, defining, select
from sts_lightning.core.errors import ConfigError

CLASSES, PAIRS = 942_069, 5_398
"""Examples of the code's two files: SNLI and MultiNLI, and the filtered pairs."""

LOSS = "sts_lightning.losses.regression.SmoothK2Loss"

LABELS = {
    "loss._target_": (LOSS, "sts_lightning.papers.losses.paper_code.PaperCodeSmoothK2Loss"),
    "loss.clamp": ("both", "left"),
}

RUN = {"seed": (1, 777), "data.seed": (1, 777), "precision": ("auto", "32-true"), **LABELS}

EXPECTED: dict[str, dict[str, tuple[Any, Any]]] = {
    "regression_nli": {
        **RUN,
        "data.filter": ("exact", "none"),
        "optim.stretch": (1.0, 4.0),
        "trainer.val_every": (0.02, 63.0),
    },
    "regression_head": {
        **RUN,
        "data.filter": ("exact", "none"),
        "optim.freeze": ("encoder", "encoder_with_dropout"),
        "optim.lr": (1e-2, 5e-5),
        "optim.stretch": (1.0, 2.35516),
        "trainer.max_steps": (None, 25_000),
    },
    "regression_tune": {**RUN, "optim.stretch": (1.0, 2.0), "trainer.val_every": (0.25, 25.0)},
}
"""Settings in which the variants differ: of the paper, of the code."""


@dataclass
class Script:
    """Constants of a script of the code: EPOCH, BATCH_SIZE, EVALUATION_PER_STEP, and its number of GPUs."""

    examples: int
    epochs: int
    batch: int
    gpus: int
    every: int


SCRIPTS = {
    "regression_nli": Script(CLASSES, epochs=1, batch=4, gpus=4, every=250),
    "regression_head": Script(CLASSES, epochs=1, batch=8, gpus=2, every=10_000),
    "regression_tune": Script(PAIRS, epochs=4, batch=8, gpus=2, every=50),
}


def variant(experiment: str, *given: str) -> DictConfig:
    return check_config(compose_train([f"experiment={experiment}", *given]))


@pytest.mark.parametrize("experiment", EXPECTED)
def test_the_variants_differ_in_what_the_code_does(experiment: str) -> None:
    paper, code = variant(experiment), variant(experiment, "papers=code")
    assert (paper.papers, code.papers) == ("paper", "code")
    assert configuration_hash(paper) == configuration_hash(variant(experiment, "papers=paper"))
    values = [select(flatten(defining(cfg)), RESULT) for cfg in (paper, code)]
    differing = {key: (value, values[1][key]) for key, value in values[0].items() if value != values[1][key]}
    assert differing == EXPECTED[experiment]


@pytest.mark.parametrize("experiment", SCRIPTS)
def test_the_steps_are_those_of_the_code(experiment: str) -> None:
    """Its loader multiplies the batch of a process by the number of GPUs, its schedule does not."""
    script, code = SCRIPTS[experiment], variant(experiment, "papers=code")
    nominal = script.batch * script.gpus
    steps = script.epochs * ceil(ceil(script.examples / script.gpus) / nominal)
    assert code.data.batch_size == nominal * script.gpus
    assert code.trainer.max_epochs == script.epochs
    every = ceil(script.every / script.gpus)  # evaluates or, the head, saves
    if experiment == "regression_head":
        assert code.trainer.max_steps == steps // every * every
        steps = code.trainer.max_steps
    else:
        assert code.trainer.val_every == every
    scheduled = script.epochs * script.examples // nominal
    assert round(code.optim.stretch * steps) == pytest.approx(scheduled, rel=3e-3)


@pytest.mark.parametrize("loss", ["l1", "mse", "smooth_k2", "translated_relu"])
def test_each_penalty_has_a_variant(loss: str) -> None:
    code = variant("regression_nli", "papers=code", f"loss={loss}")
    alone = variant("regression_nli", f"loss=paper_code_{loss}", "loss.clamp=left")
    assert code.loss == alone.loss


def test_what_is_given_takes_precedence() -> None:
    code = variant("regression_tune", "papers=code", "seed=2", "optim.stretch=1", "loss.k=3.5")
    assert (code.seed, code.data.seed, code.optim.stretch, code.loss.k) == (2, 2, 1.0, 3.5)


def test_a_variant_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match=r"no variant named 'cod'. Did you mean code\?"):
        check_choices(["experiment=regression_nli", "papers=cod"])


@pytest.mark.parametrize("given", [["experiment=pcc_stage1"], ["data=toy"]])
def test_an_experiment_without_variants(given: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"^papers: no such setting\. It belongs to experiment=regression_"):
        compose_train([*given, "papers=code"])
