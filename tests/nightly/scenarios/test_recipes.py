"""Every recipe trains a few steps on the generated language, through the code that users run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sts_lightning.core.errors import InterruptedRunError
from sts_lightning.papers import rank_monitor
from sts_lightning.runs.folder import RunFolder
from sts_lightning.workflows.start import train_in
from tests.runs.test_recipes import RECIPES
from tests.support.interruptions import StopAt
from tests.support.recipes import (
    SINGLE,
    Config,
    check_training,
    losses,
    overrides,
)
from tests.support.whole_runs import metrics, same_results, weights


@pytest.mark.parametrize("experiment", sorted(set(SINGLE) - RECIPES.keys()))
def test_experiment_trains_and_comes_back(
    experiment: str, config: Config, tmp_path: Path, uninterrupted: Path
) -> None:
    check_training(experiment, config, tmp_path, uninterrupted)


@pytest.mark.parametrize("experiment", ["simcse_unsup", "esimcse", "infocse"])
def test_an_unsupervised_recipe_takes_rank_reduction(experiment: str, config: Config, tmp_path: Path) -> None:
    values = []
    for number, extra in enumerate([[], ["regularizer=rank_reduction", "regularizer.coefficient=0.5"]]):
        run = tmp_path / str(number)
        train_in(run, config(*overrides(experiment), "evaluation.final=false", *extra))
        values.append(losses(run))
        rows = [row for row in RunFolder(run).history() if "train/regularizer" in row]
        assert len(rows) == 4 * number
    assert values[1][0] == pytest.approx(values[0][0] + rows[0]["train/regularizer"], abs=1e-5)
    assert values[1][3] != pytest.approx(values[0][3] + rows[3]["train/regularizer"], abs=1e-7)


@pytest.mark.parametrize(
    ("experiment", "extra"),
    [
        ("esimcse", ["auxiliary.size=12"]),
        ("pcc_stage2", ["callbacks=ema"]),
        ("regression_head", ["callbacks=ema"]),
        ("infocse", ["callbacks=ema"]),
        ("promcse_llama", []),
        ("ct", ["model.adapter={_target_: peft.LoraConfig, task_type: FEATURE_EXTRACTION, r: 4}"]),
        ("rankcse", ["loss.distillation=listnet"]),
        (
            "simcse_unsup",
            [
                "regularizer=rank_reduction",
                "regularizer.phase1=none",
                "callbacks=rank_monitor",
                "callbacks.rank_monitor.every=1",
                "callbacks.rank_monitor.patience=1",
                "callbacks.rank_monitor.margin=0",
                "callbacks.rank_monitor.power=1",
            ],
        ),
    ],
)
def test_resumed_equals_uninterrupted(
    experiment: str, extra: list[str], config: Config, tmp_path: Path, uninterrupted: Path
) -> None:
    settings = [*overrides(experiment, uninterrupted), *extra, "trainer.max_steps=8"]
    train_in(tmp_path / "whole", config(*settings))
    with pytest.raises(InterruptedRunError):
        train_in(tmp_path / "cut", config(*settings), callbacks=[StopAt(5)])
    train_in(tmp_path / "cut", RunFolder(tmp_path / "cut").load_config(), resume=True)
    same_results(tmp_path / "whole", tmp_path / "cut")


def test_the_rank_monitor_leaves_training_alone(config: Config, tmp_path: Path) -> None:
    settings = [*overrides("simcse_unsup"), "model.pooling=mean", "trainer.max_steps=6"]
    watch = ["callbacks=rank_monitor", "callbacks.rank_monitor.every=2"]
    train_in(tmp_path / "alone", config(*settings))
    train_in(tmp_path / "watched", config(*settings, *watch))
    assert losses(tmp_path / "alone") == losses(tmp_path / "watched")
    for name, value in weights(tmp_path / "alone").items():
        assert torch.equal(value, weights(tmp_path / "watched")[name])
    rows = [row for row in RunFolder(tmp_path / "watched").history() if "rank/energy" in row]
    assert [row["step"] for row in rows] == [0, 2, 4, 6]
    assert {"rank/effective", "rank/entropy", "rank/alignment", "rank/uniformity"} <= rows[0].keys()
    assert rows[0]["rank/spearman"] == pytest.approx(metrics(tmp_path / "watched")["dev_untuned"], abs=0.1)
    assert metrics(tmp_path / "watched")["phases"]["boundary"] in (0, 2, 4, 6)


def test_the_phase_switch_reaches_the_regularizer(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = iter([1, 5, 7, 9, 8, 7, 6, 5, 4])  # at steps 0 to 8; the third below 9 is at step 6
    monkeypatch.setattr(rank_monitor, "energy_rank", lambda values, *_: next(ranks) if len(values) > 1 else 1)
    run = tmp_path / "run"
    extra = ["regularizer=rank_reduction", "regularizer.phase1=none", "callbacks=rank_monitor"]
    limits = ["callbacks.rank_monitor.every=1", "trainer.max_steps=8"]
    train_in(run, config(*overrides("simcse_unsup"), *extra, *limits))
    history = RunFolder(run).history()
    terms = {row["step"]: row["train/regularizer"] for row in history if "train/regularizer" in row}
    assert [step for step, term in terms.items() if term > 0] == [7, 8]


def test_losses_see_float32_under_mixed_precision(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sts_lightning.losses import contrastive

    dtypes = set()
    original = contrastive.cosine_matrix

    def spy(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        cosines = original(first, second)
        dtypes.add(cosines.dtype)
        return cosines

    monkeypatch.setattr(contrastive, "cosine_matrix", spy)
    train_in(tmp_path / "run", config(*overrides("simcse_unsup"), "precision=bf16-mixed"))
    assert dtypes == {torch.float32}


def test_the_average_is_what_is_validated_and_kept(config: Config, tmp_path: Path) -> None:
    settings = [*overrides("stage2"), "trainer.val_every=null", "optim.schedule=constant_with_warmup"]
    ema = ["callbacks=ema", "callbacks.ema.decay=0.75"]
    for name, extra in {"one": [], "two": [], "averaged": ema}.items():
        steps = 1 if name == "one" else 2
        train_in(tmp_path / name, config(*settings, f"trainer.max_steps={steps}", "optim.warmup=0", *extra))

    def encoder_weight(run: str) -> torch.Tensor:
        state = weights(tmp_path / run, "final")
        return state["encoder.backbone.encoder.layer.0.output.dense.weight"]

    assert losses(tmp_path / "two") == losses(tmp_path / "averaged")  # the average does not train
    expected = 0.75 * encoder_weight("one") + 0.25 * encoder_weight("two")
    torch.testing.assert_close(encoder_weight("averaged"), expected)
    scored = [
        row["dev/spearman"] for row in RunFolder(tmp_path / "averaged").history() if "dev/spearman" in row
    ]
    assert max(scored[1:]) == pytest.approx(metrics(tmp_path / "averaged")["dev"]["spearman"], abs=0.2)
