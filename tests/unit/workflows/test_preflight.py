"""Parts of a run that fit together or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.check import check_config
from sts_lightning.core.errors import ConfigError
from sts_lightning.core.hardware import resolve_machine
from sts_lightning.data.module import DataModule
from sts_lightning.losses import all_losses
from sts_lightning.losses.base import Loss
from sts_lightning.losses.joint import JointLoss
from sts_lightning.losses.matryoshka import MatryoshkaLoss
from sts_lightning.losses.mix import MixLoss
from sts_lightning.losses.pearson import PearsonLoss
from sts_lightning.regularizers.global_orthogonal import GlobalOrthogonal
from sts_lightning.regularizers.rank_reduction import RankReduction
from sts_lightning.runs.folder import RunFolder
from sts_lightning.training.assembly import assemble, make_data
from sts_lightning.workflows.preflight import (
    CALLBACKS,
    check_components,
    check_fit,
    check_machine,
    conflicts,
)
from sts_lightning.workflows.train import make_loggers
from tests.conftest import CONF
from tests.support.loss_cases import batch, further, make

Config = Callable[..., DictConfig]


def source(config: Config, *overrides: str) -> DataModule:
    return make_data(config(*overrides))


def computes(loss: Loss, data: DataModule) -> bool:
    """Whether the loss gives a number for a batch as the data has it."""
    torch.manual_seed(0)
    views = torch.randn(len(data.data_set.views), 7, 6, dtype=torch.float64)
    labels = {"none": None, "score": 5 * torch.rand(7, dtype=torch.float64), "class": torch.arange(7) % 3}
    try:
        further_ = further(loss) | (
            {"teacher_vectors": torch.rand(len(views), 7, 6).double()}
            if "teacher_vectors" in loss.needs.required_inputs
            else {}
        )
        return bool(loss(views, labels[data.data_set.label], **further_).isfinite())
    except (ValueError, RuntimeError, IndexError):
        return False


PLAIN = {stem: kind for stem, kind in all_losses().items() if kind is not JointLoss}


@pytest.mark.parametrize("data", sorted({path.stem for path in (CONF / "data").glob("*.yaml")} - {"joint"}))
def test_loss_and_data_fit_or_are_rejected(data: str, config: Config) -> None:
    """What a loss declares holds: it computes a number from all data that it accepts."""
    columns = {"labels_file": "[text,label]", "triplets_file": "[a,p,n]", "triplets_hub": "[a,p,n]"}.get(data)
    named = [] if columns is None else [f"data.columns={columns}"]
    given = source(config, f"data={data}", "path=mine.csv", *named)
    for stem in PLAIN:
        loss = make(stem)
        needs = loss.needs
        count = len(given.data_set.views)
        views = count in needs.views or (needs.more_views and count > max(needs.views))
        if views and given.data_set.label in loss.needs.labels:
            check_fit(loss, given)
            assert computes(loss, given), stem
            continue
        with pytest.raises(
            ConfigError, match=r"needs .* but .* gives .* Losses that fit this data: "
        ) as error:
            check_fit(loss, given)
        listed = str(error.value).partition("Losses that fit this data: ")[2].partition(".")[0]
        assert stem not in listed.split(", ")


@pytest.mark.parametrize(
    ("chosen", "loss", "named"),
    [
        ("data=pairs_file path=mine.csv", "infonce", "data.positives_from=4;"),
        ("data=pairs_file path=mine.csv data.score_range=[0,1]", "infonce", "data.positives_from=0.8;"),
        ("data=toy", "infonce", "data=triplets_file"),
        ("data=nli_triplets", "pearson", "data=pairs_file"),
        ("data=triplets_file path=mine.csv data.columns=[a,p,n]", "mixcse", "data.negatives=0"),
        ("data=pairs_file path=mine.csv data.positives_from=4", "pearson", "without data.positives_from"),
    ],
)
def test_the_way_to_other_data_is_named(chosen: str, loss: str, named: str, config: Config) -> None:
    with pytest.raises(ConfigError) as caught:
        check_fit(make(loss), source(config, *chosen.split()), config(*chosen.split()).data)
    assert named in str(caught.value.hint)


def test_any_number_of_hard_negatives(config: Config) -> None:
    columns = "data.columns=[anchor,positive,n1,n2,n3]"
    given = source(config, "data=triplets_file", "path=mine.csv", columns)
    for loss in map(make, PLAIN):
        if loss.needs.more_views:
            check_fit(loss, given)
            assert computes(loss, given)
        else:
            with pytest.raises(ConfigError, match="gives 5 views and no label"):
                check_fit(loss, given)


class FromFourRows(PearsonLoss):
    needs = replace(PearsonLoss.needs, min_batch_for_gradient=4)

    def forward(self, views: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        return super().forward(views, labels) if views.shape[1] >= 4 else 0 * views.sum()


@pytest.mark.parametrize("wrapped", [False, True])
def test_batches_in_which_a_loss_compares_nothing_are_rejected(wrapped: bool, config: Config) -> None:
    for size, enough in ((3, False), (4, True)):
        loss: Loss = FromFourRows()
        if wrapped:
            loss = MixLoss(
                {"plain": PearsonLoss(), "apart": MatryoshkaLoss(loss, [4])}, {"plain": 0, "apart": 1}
            )
        data = source(config, "data=toy", f"data.batch_size={size}")
        views, labels = torch.randn(2, size, 4, requires_grad=True), torch.arange(float(size)) * 5 / size
        loss(views, labels).backward()
        assert views.grad is not None
        assert bool(views.grad.any()) is enough
        if enough:
            check_fit(loss, data)
            continue
        with pytest.raises(ConfigError, match=f"a batch of {size}") as caught:
            check_fit(loss, data)
        assert caught.value.key == "data.batch_size"


@pytest.mark.parametrize("stem", sorted(all_losses()))
def test_a_batch_of_one_is_for_losses_of_single_rows(stem: str) -> None:
    loss = make(stem)
    views, labels = batch(loss, 1)
    views.requires_grad_()
    if loss.needs.min_batch == 1:
        loss(views, labels, **further(loss, 1)).backward()
    if loss.needs.min_batch_for_gradient == 1:
        assert views.grad is not None and views.grad.abs().max() > 1e-9


def test_regularizers_read_the_views_that_there_are() -> None:
    for regularizer, views in (
        (GlobalOrthogonal(), 2),
        (RankReduction(views="each"), 2),
        (RankReduction(), 1),
    ):
        assert regularizer.least_views == views
        assert regularizer(torch.randn(views, 6, 4)).isfinite()


CALLBACK = "+callbacks.mine._target_=lightning.pytorch.callbacks."


@pytest.mark.parametrize(
    ("overrides", "key", "message"),
    [
        ("loss=infonce data.kind=sentences data.views=1 regularizer=global_orthogonal", "loss", "needs 2 or"),
        ("auxiliary=momentum_queue", "auxiliary", "PearsonLoss takes no negatives. Losses that do: infonce"),
        (
            "auxiliary=second_encoder",
            "auxiliary",
            "PearsonLoss takes no second. Losses that do: contrastive_tension",
        ),
        ("loss=contrastive_tension data.kind=sentences data.views=1", "auxiliary", "provides second"),
        ("loss=rankcse data.kind=sentences", "auxiliary", "needs an auxiliary model that provides teacher"),
        ("loss=infocse data.kind=sentences", "auxiliary", "Choose auxiliary=masked_lm, "),
        ("regularizer=rank_reduction regularizer.phase2=none", "regularizer", "add callbacks=rank_monitor"),
        ("optim.freeze=encoder", "optim.freeze", "leaves nothing to train: PearsonLoss has no head"),
        (
            "model=tiny_opt model.adapter=null model.dtype=bfloat16",
            "model.dtype",
            "model.dtype=bfloat16: weights that train",
        ),
        (
            "model=tiny_opt model.adapter=null model.quantization=4bit",
            "model.quantization",
            "give the model an adapter",
        ),
        ("model=tiny_mistral trainer.wise_ft=[0.5]", "trainer.wise_ft", "the mean of an adapter"),
        ("path=mine.csv", "path", "path=mine.csv has no effect on this data"),
        ("dev=stsb_clean", "dev", "dev=stsb_clean has no effect on this data"),
        ("trainer.micro_batch_size=true", "trainer.micro_batch_size", "valid integer"),
        ("+trainer.extra.accumulate_grad_batches=2", "trainer.extra.accumulate_grad_batches", "profiler"),
        (
            "loss=infonce data.kind=sentences data.repetition=0.3 prompt=promptbert",
            "data.repetition",
            "use prompt=none",
        ),
        (
            f"{CALLBACK}GradientAccumulationScheduler +callbacks.mine.scheduling={{0:4}}",
            "callbacks.mine",
            "use data.batch_size",
        ),
    ],
)
def test_what_would_train_something_else(
    overrides: str, key: str, message: str, config: Config, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_components(assemble(check_config(config("data=toy", "name=run", *overrides.split())), "meta"))
    assert caught.value.key == key
    assert message in str(caught.value)


def test_all_that_does_not_fit_is_told_at_once(config: Config) -> None:
    wrong = ["path=mine.csv", "dev=stsb_clean", "auxiliary=momentum_queue", "+trainer.extra.limit=2"]
    with pytest.raises(ConfigError) as caught:
        check_components(assemble(check_config(config("data=toy", "name=run", *wrong)), "meta"))
    first, *lines = str(caught.value).splitlines()
    assert first == "4 mistakes:"
    for named in (
        "trainer.extra.limit: no such setting",
        "path=mine.csv has",
        "dev=stsb_clean has",
        "auxiliary: ",
    ):
        assert sum(line.startswith(f"  {named}") for line in lines) == 1


class Recorded(Logger):
    """A logger that keeps what it is built with."""

    name = version = "recorded"

    def __init__(self, **given: object) -> None:
        super().__init__()
        self.given = given

    def log_hyperparams(self, *args: object, **kwargs: object) -> None: ...

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None: ...


class Local(Recorded):
    def __init__(self, save_dir: str) -> None:
        super().__init__(save_dir=save_dir)


class Store(Recorded):
    def __init__(self, tracking_uri: str | None = None, save_dir: str = "./mlruns") -> None:
        super().__init__(tracking_uri=tracking_uri, save_dir=save_dir)


class Server(Recorded):
    """The variable was set when the class was read."""

    def __init__(self, tracking_uri: str | None = "http://server") -> None:
        super().__init__(tracking_uri=tracking_uri)


@pytest.mark.parametrize(
    ("cls", "settings", "given"),
    [
        (Recorded, {"project": "x"}, {"project": "x"}),
        (Local, {}, {"save_dir": "RUN"}),
        (Local, {"save_dir": "mine"}, {"save_dir": "mine"}),
        (Store, {}, {"save_dir": "RUN", "tracking_uri": "sqlite:///RUN/mlflow.db"}),
        (Store, {"tracking_uri": "http://mine"}, {"save_dir": "RUN", "tracking_uri": "http://mine"}),
        (Server, {}, {"tracking_uri": "http://server"}),
    ],
)
def test_a_logger_gets_the_folder_if_it_takes_one(
    cls: type[Recorded], settings: dict[str, str], given: dict[str, str], tmp_path: Path
) -> None:
    node = {"_target_": f"{__name__}.{cls.__name__}", **settings}
    (logger,) = make_loggers(RunFolder(tmp_path), OmegaConf.create({"logger": {"mine": node}}))
    assert isinstance(logger, Recorded)
    assert logger.given == {name: value.replace("RUN", str(tmp_path)) for name, value in given.items()}


def test_a_csv_logger_writes_where_it_was_told(tmp_path: Path) -> None:
    node = {"_target_": "lightning.pytorch.loggers.CSVLogger", "save_dir": str(tmp_path / "mine")}
    (logger,) = make_loggers(RunFolder(tmp_path / "run"), OmegaConf.create({"logger": {"mine": node}}))
    logger.log_metrics({"loss": 1.5}, 1)
    logger.save()
    assert [path.read_text().split() for path in tmp_path.rglob("*.csv")] == [["loss,step", "1.5,1"]]
    assert not (tmp_path / "run").exists()


def test_a_regularizer_of_two_views(config: Config) -> None:
    cfg = check_config(config("data=toy", "name=run", "data.kind=sentences", "data.views=1"))
    (error,) = conflicts(replace(assemble(cfg, "meta"), regularizer=GlobalOrthogonal()))
    assert error.key == "regularizer"
    assert "reads 2 views" in str(error)


def test_a_regularizer_of_a_frozen_encoder(config: Config) -> None:
    cfg = check_config(config("data=toy", "name=run", "optim.freeze=encoder", "regularizer=rank_reduction"))
    errors = conflicts(assemble(cfg, "meta"))
    assert [error.key for error in errors][-2:] == ["optim.freeze", "regularizer"]
    assert "is frozen" in str(errors[-1])


def test_callbacks_that_change_the_loss_unnoticed(config: Config) -> None:
    cfg = check_config(config("data=toy", "name=run"))
    parts = assemble(cfg, "meta")
    cfg.callbacks = {"mine": {}}
    for kind in CALLBACKS:
        callback = type(kind, (Callback,), {})()
        (error,) = conflicts(replace(parts, callbacks=[callback]))
        assert str(error).startswith(f"callbacks.mine: {kind} ")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trainer.devices=-1", "without any give the number of processes"),
        ("trainer=gpu", "no CUDA device is visible"),
        ("precision=16-mixed", "needs a CUDA device"),
    ],
)
def test_what_this_machine_lacks(override: str, message: str, config: Config) -> None:
    with pytest.raises(ConfigError, match=message):
        check_machine(resolve_machine(config(override)))


@pytest.fixture
def triplets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file mine.csv in the working directory, whose columns are recognised."""
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text("a,p,n\nx,y,z\nu,v,w\n")


@pytest.mark.parametrize(
    ("data", "prompt", "message"),
    [
        (
            "data=toy",
            "prompt.query='q: '",
            "prompt.query: scored pairs and views of one sentence are compared in both directions",
        ),
        ("data=classes_file", "prompt.document='d: '", "prompt.document: scored pairs"),
        ("data=sentences_file", "prompt.query='q: '", "prompt.query: "),
        ("data=triplets_file", "prompt.query='q: '", None),
    ],
)
def test_prompts_by_role_are_for_queries_and_documents(
    data: str, prompt: str, message: str | None, config: Config, triplets: None
) -> None:
    cfg = check_config(config(data, "path=mine.csv" if data != "data=toy" else "seed=1", "name=run", prompt))
    found = [str(error) for error in conflicts(assemble(cfg, "meta"))]
    assert [message in text for text in found] == [True] if message else found == []


@pytest.mark.parametrize(
    ("data", "templates", "hint"),
    [
        (
            "triplets_file",
            '["q: {sentence}","d: {sentence}","d: {sentence}"]',
            "Type prompt.query=... and prompt.document=... instead.",
        ),
        ("triplets_file", '["q: {sentence}","d: {sentence}","n: {sentence}"]', None),
        ("triplets_file", '["q: {sentence} ?","d: {sentence}","d: {sentence}"]', None),
        ("sentences_file", '["q: {sentence}","d: {sentence}"]', None),
    ],
)
def test_view_templates_that_are_prompts_by_role(
    data: str, templates: str, hint: str | None, config: Config, triplets: None
) -> None:
    settings = ["path=mine.csv", "name=run", "prompt.template='q: {sentence}'"]
    cfg = check_config(config(f"data={data}", f"prompt.view_templates={templates}", *settings))
    errors = conflicts(assemble(cfg, "meta"))
    assert [error.hint for error in errors] == ([hint] if hint else [])
