"""Parts of a run that fit together or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from omegaconf import DictConfig

from sts_lightning.config.build import build
from sts_lightning.data.module import SentenceDataModule
from sts_lightning.errors import ConfigError
from sts_lightning.losses import all_losses
from sts_lightning.losses.base import Loss
from sts_lightning.losses.matryoshka import MatryoshkaLoss
from sts_lightning.losses.mix import MixLoss
from sts_lightning.losses.pearson import PearsonLoss
from sts_lightning.losses.rank_margin import RankMarginLoss
from sts_lightning.regularizers.base import Regularizer
from sts_lightning.regularizers.global_orthogonal import GlobalOrthogonal
from sts_lightning.regularizers.rank_reduction import RankReduction
from sts_lightning.training.assembly import make_loss
from sts_lightning.workflows.fit_checks import check_fit, check_regularizer, check_wise_ft
from sts_lightning.workflows.validate import check_extras
from tests.conftest import CONF
from tests.losses.cases import batch, further, make

Config = Callable[..., DictConfig]


SCORED = {
    "angle",
    "concordance",
    "cosent",
    "cosine_mse",
    "gated_angle",
    "ibn",
    "kendall",
    "l1",
    "listmle",
    "listnet",
    "mse",
    "pearson",
    "rank_margin",
    "smooth_k2",
    "spearman",
    "translated_relu",
}
ORDERED = {"angle", "cosent", "gated_angle", "kendall", "l1", "listmle", "mse", "rank_margin", "smooth_k2"}
CLASSES = ORDERED | {"cross_entropy", "translated_relu"}
DISTILLED = {"score_distillation", "similarity_distillation", "vector_distillation"}
CONTRASTIVE = {"infonce", "decoupled", "energy", "gist", "hardness", "infocse", "sigmoid"}
VIEWS = CONTRASTIVE | DISTILLED | {"mixcse", "rankcse"}
FITTING = {
    "sts": SCORED | DISTILLED,
    "pairs_file": SCORED | DISTILLED,
    "pairs_hub": SCORED | DISTILLED,
    "toy": SCORED | DISTILLED,
    "classes_file": CLASSES | DISTILLED,
    "nli_pairs": CLASSES | DISTILLED,
    "nli_triplets": CONTRASTIVE | {"vector_distillation"},
    "triplets_file": CONTRASTIVE | {"vector_distillation"},
    "sentences_file": VIEWS,
    "sentences": VIEWS,
}
"""Losses that can use what each choice of `data` gives; those around others have the needs of these."""


WRAPPERS = {"divided", "matryoshka", "mix"}


@pytest.fixture(scope="module")
def heads() -> dict[str, Loss]:
    return {stem: make(stem) for stem in all_losses() if stem not in WRAPPERS}


@pytest.mark.parametrize("data", sorted(path.stem for path in (CONF / "data").glob("*.yaml")))
def test_loss_and_data_fit_or_are_rejected(data: str, heads: dict[str, Loss], config: Config) -> None:
    source = build("data", config(f"data={data}", "path=mine.csv").data, SentenceDataModule)
    for stem, head in heads.items():
        if stem in FITTING[data]:
            check_fit(head, source)
            continue
        with pytest.raises(
            ConfigError, match=r"needs .* but .* gives .* Losses that fit this data: "
        ) as caught:
            check_fit(head, source)
        listed = str(caught.value).partition("Losses that fit this data: ")[2].partition(".")[0]
        assert set(listed.split(", ")) - WRAPPERS == FITTING[data]


@pytest.mark.parametrize(
    ("chosen", "loss", "named"),
    [
        ("data=pairs_file path=mine.csv", "infonce", "data.positives_from=4;"),
        ("data=pairs_file path=mine.csv data.score_range=[0,1]", "infonce", "data.positives_from=0.8;"),
        ("data=sts", "infonce", "data.positives_from=4;"),
        ("data=toy", "infonce", "data=triplets_file"),
        ("data=nli_triplets", "pearson", "data=pairs_file"),
        ("data=triplets_file path=mine.csv", "mixcse", "'data.columns=[anchor,positive]'"),
        ("data=pairs_file path=mine.csv data.positives_from=4", "pearson", "without data.positives_from"),
    ],
)
def test_the_way_to_other_data_is_named(chosen: str, loss: str, named: str, config: Config) -> None:
    source = build("data", config(*chosen.split()).data, SentenceDataModule)
    with pytest.raises(ConfigError) as caught:
        check_fit(make(loss), source)
    assert caught.value.hint is not None
    assert named in caught.value.hint


def test_any_number_of_hard_negatives(config: Config, heads: dict[str, Loss]) -> None:
    columns = "data.columns=[anchor,positive,n1,n2,n3]"
    source = build("data", config("data=triplets_file", "path=mine.csv", columns).data, SentenceDataModule)
    for stem, head in heads.items():
        if stem in CONTRASTIVE:
            check_fit(head, source)
        else:
            with pytest.raises(ConfigError, match="gives 5 views and no label"):
                check_fit(head, source)


@pytest.mark.parametrize("wrapped", [False, True])
def test_batches_in_which_a_loss_compares_nothing_are_rejected(wrapped: bool, config: Config) -> None:
    for size, gap, enough in ((17, 16.0, False), (18, 16.0, True), (3, 1.5, True), (2, 1.5, False)):
        loss: Loss = RankMarginLoss(gap=gap)
        if wrapped:
            loss = MixLoss(
                {"plain": PearsonLoss(), "apart": MatryoshkaLoss(loss, [4])}, {"plain": 0, "apart": 1}
            )
        data = build("data", config("data=toy", f"data.batch_size={size}").data, SentenceDataModule)
        views, labels = torch.randn(2, size, 4, requires_grad=True), torch.arange(float(size)) * 5 / size
        loss(views, labels).backward()
        assert bool(views.grad.any()) is enough
        if enough:
            check_fit(loss, data)
            continue
        with pytest.raises(ConfigError, match=f"a batch of {size}") as caught:
            check_fit(loss, data)
        assert caught.value.key == "data.batch_size"


@pytest.mark.parametrize("stem", sorted(all_losses()))
def test_a_batch_of_one_is_for_losses_of_single_rows(stem: str, config: Config) -> None:
    loss = make(stem)
    views, labels = batch(loss, 1)
    views.requires_grad_()
    learns = False
    if loss.least_rows == 1:
        loss(views, labels, **further(loss, 1)).backward()
        learns = bool(views.grad is not None and views.grad.abs().max() > 1e-9)
    if loss.least_batch == 1:
        assert learns
    elif learns:  # of a hard negative, of another term, or towards vectors that are all the same
        assert stem in ("gist", "infonce", "mix", "contrastive_tension", "infocse", "sigmoid")


def test_a_batch_of_one_is_rejected_where_nothing_is_compared(config: Config) -> None:
    data = build("data", config("data=toy", "data.batch_size=1").data, SentenceDataModule)
    check_fit(make("cosine_mse"), data)
    with pytest.raises(ConfigError, match=r"a batch of 1; .* data\.batch_size must be at least 2"):
        check_fit(make("pearson"), data)


def test_regularizers_read_the_views_that_there_are(config: Config) -> None:
    one = build("data", config("data=toy", "data.kind=sentences", "data.views=1").data, SentenceDataModule)
    two = build("data", config("data=toy").data, SentenceDataModule)
    for regularizer, views in (
        (GlobalOrthogonal(), 2),
        (RankReduction(views="each"), 2),
        (RankReduction(), 1),
    ):
        assert regularizer.least_views == views
        check_regularizer(regularizer, two)
        assert regularizer(torch.randn(views, 6, 4)).isfinite()
        if views == 1:
            check_regularizer(regularizer, one)
            continue
        with pytest.raises(ConfigError, match="reads 2 views") as caught:
            check_regularizer(regularizer, one)
        assert caught.value.key == "regularizer"


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (
            ["loss=pearson", "queue.size=8"],
            "PearsonLoss takes no further negatives. Losses that do: infocse, infonce",
        ),
        (["regularizer=rank_reduction", "regularizer.phase2=none"], "add callbacks=rank_monitor"),
        (["regularizer=rank_reduction", "freeze=encoder"], "a regularizer has no effect"),
        (["queue.size=-1"], "must not be negative"),
        (["queue.official=true"], r"queue\.official=True has no effect without a queue"),
        (["queue.momentum=0.9"], r"queue\.momentum=0\.9 has no effect without a queue"),
        (["experiment=pcc_stage2"], "init=final needs the run to start from"),
        (["model=mistral7b", "model.adapter=null"], r"model\.dtype=bfloat16: weights that train have to be"),
        (
            ["model=tiny_opt", "model.adapter=null", "model.quantization=4bit"],
            r"model\.quantization=4bit: weights that train have to be float32; give the model an adapter",
        ),
        (["experiment=regression_tune"], "init=final needs the run to start from: init_from=<run folder>"),
    ],
)
def test_extras_that_would_have_no_effect(extra: list[str], message: str, config: Config) -> None:
    cfg = config(*extra)
    regularizer = build("regularizer", cfg.regularizer, Regularizer) if cfg.regularizer else None
    with pytest.raises(ConfigError, match=message):
        check_extras(cfg, make_loss(cfg.loss, 2, 1.0), regularizer, [])


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["trainer.wise_ft=[0.5,1.5]"], r"from 0 to 1, got 1\.5"),
        (["trainer.wise_ft=[nan]"], "from 0 to 1, got nan"),
        (["trainer.wise_ft=[0.5]", "model=mistral7b"], "the mean of factors"),
        (["trainer.wise_ft=[0.5]", "loss=mse", "freeze=encoder"], "no effect with freeze=encoder"),
    ],
)
def test_averages_with_the_start_need_weights_that_train(
    extra: list[str], message: str, config: Config
) -> None:
    check_wise_ft(config("trainer.wise_ft=[0,0.5,1]"))
    with pytest.raises(ConfigError, match=message) as caught:
        check_wise_ft(config(*extra))
    assert caught.value.key == "trainer.wise_ft"
