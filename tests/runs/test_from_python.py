"""`sts_lightning.train` beside the command."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

import sts_lightning
from sts_lightning.core.errors import ConfigError, DataError, InterruptedRunError
from sts_lightning.losses.base import Loss, cosine_rows, require
from sts_lightning.runs.folder import RunFolder
from sts_lightning.training.module import STSModule
from tests.conftest import EXACT
from tests.support.two_runs import write_experiments
from tests.support.whole_runs import weights

Cli = Callable[..., subprocess.CompletedProcess[str]]

SETTINGS: dict[str, Any] = {
    "data.train_size": 64,
    "data.dev_size": 20,
    "data.test_size": 20,
    "data.batch_size": 16,
    "trainer.max_epochs": 1,
}


class ScaledLoss(Loss):
    """Mean absolute difference of cosine and score, times a factor."""

    views = (2,)
    labels = ("score",)

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, views: Tensor, labels: Tensor | None = None) -> Tensor:
        scores = require(self, labels=labels) / 5
        return self.factor * (cosine_rows(views[0], views[1]) - scores).abs().mean()


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def short() -> Iterator[Callable[..., RunFolder]]:
    def call(settings: dict[str, Any] | None = None, **choices: Any) -> RunFolder:
        usual = {"data": "toy", "model": "tiny_bert", "precision": EXACT.partition("=")[2]}
        return sts_lightning.train(settings=SETTINGS | (settings or {}), **(usual | choices))

    yield call


def test_two_runs_in_one_process_are_that_of_the_command(
    short: Callable[..., RunFolder], cli: Cli, tmp_path: Path
) -> None:
    first, again = short(folder="first", seed=3), short(folder="again", seed=3)
    overrides = [f"{key}={value}" for key, value in SETTINGS.items()]
    done = cli("train.py", "data=toy", "model=tiny_bert", "seed=3", *overrides, "hydra.run.dir=command")
    assert done.returncode == 0, done.stderr
    command = RunFolder(tmp_path / "command")
    for run in (first, again):
        assert run.settings() == command.settings()
        assert run.metrics().scores == command.metrics().scores
        torch.testing.assert_close(weights(run.path), weights(command.path), rtol=0, atol=0)
    assert "loss" in first.log_file.read_text()
    assert logging.getLogger("sts_lightning").level == logging.NOTSET
    sts_lightning.load(first.path).encode(["A sentence."])
    written = first.metrics_file.stat().st_mtime_ns
    assert short(folder="first", seed=3).metrics() == first.metrics()
    assert first.metrics_file.stat().st_mtime_ns == written
    with pytest.raises(ConfigError, match="first contains a run that was started with other values of"):
        short(folder="first", seed=4)


SCORED = "query\treply\trating\n" + "".join(
    f"the word a{i} b\tthe word c{i % 7}\t{i % 6}\n" for i in range(60)
)


def test_a_file_stands_for_the_data_and_a_folder_is_made(caplog: pytest.LogCaptureFixture) -> None:
    Path("my pairs.tsv").write_text(SCORED)
    settings = {"data.score_range": (0, 5), "data.batch_size": 16, "trainer.max_epochs": 1}
    with caplog.at_level(logging.INFO):
        run = sts_lightning.train(data="my pairs.tsv", model="tiny_bert", settings=settings)
    assert "data=pairs_file loss=pearson data.columns=[query,reply,rating]; type another" in caplog.text
    assert run.path.parent == Path.cwd() / "runs" / "pairs_file-pearson-tiny_bert"
    assert run.settings()["path"] == "my pairs.tsv"
    assert run.settings()["data"]["columns"] == ["query", "reply", "rating"]
    assert run.metrics().score


def test_the_file_of_a_command_decides_its_data_and_the_name_of_its_run(cli: Cli) -> None:
    Path("my.tsv").write_text(SCORED)
    short = ["model=tiny_bert", "data.batch_size=16", "trainer.max_epochs=1"]
    done = cli("train.py", "path=my.tsv", *short)
    assert done.returncode == 0, done.stderr
    assert (
        sum(
            "data=pairs_file loss=pearson data.columns=[query,reply,rating]; type" in one
            for one in said(done)
        )
        == 1
    )
    (folder,) = Path("runs/pairs_file-pearson-tiny_bert").iterdir()
    assert RunFolder(folder).settings()["data"]["columns"] == ["query", "reply", "rating"]
    typed = cli("train.py", "path=my.tsv", "loss=infonce", *short)
    assert typed.stderr.startswith("error: InfoNCELoss needs 2 or more views and no label")
    shown = cli("train.py", "path=my.tsv", "--cfg=job", *short)
    assert yaml.safe_load(shown.stdout)["data"]["columns"] == ["query", "reply", "rating"], shown.stdout


@pytest.mark.parametrize(
    ("header", "row", "choices"),
    [
        ("question,answer", "How tall is tower {0}?,It has {0} floors.", "triplets_file-infonce"),
        ("text,intent", "please do thing {0},book{1}", "labels_file-infonce"),
    ],
)
def test_a_file_without_scores(cli: Cli, header: str, row: str, choices: str) -> None:
    Path("my.csv").write_text("\n".join([header, *(row.format(i, i % 3) for i in range(60)), ""]))
    Path("dev.tsv").write_text(SCORED.replace("query\treply\trating", "sentence1\tsentence2\tscore"))
    short = ["model=tiny_bert", "data.batch_size=16", "trainer.max_steps=1", "trainer.val_every=1"]
    done = cli("train.py", "path=my.csv", "data.dev_path=dev.tsv", "evaluation.final=false", *short)
    assert done.returncode == 0, done.stderr
    data, loss = choices.split("-")
    assert sum(f": data={data} loss={loss}; type another" in line for line in said(done)) == 1
    assert len(list(Path("runs", f"{choices}-tiny_bert").iterdir())) == 1


def test_jobs_of_a_sweep_are_told_what_their_files_decided(cli: Cli) -> None:
    for name in ("one.tsv", "two.tsv"):
        Path(name).write_text(SCORED)
    short = ["model=tiny_bert", "data.batch_size=16", "trainer.max_steps=1", "trainer.val_every=1"]
    done = cli("train.py", "-m", "path=one.tsv,two.tsv", *short)
    assert done.returncode == 0, done.stderr
    assert sum("; type another data=" in line for line in said(done)) == 1
    outputs = list(Path("runs/pairs_file-pearson-tiny_bert").glob("*/output.log"))
    assert len(outputs) == 2
    assert not any("; type another" in output.read_text() for output in outputs)


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    return done.stdout.splitlines()


def test_a_class_of_ones_own_in_a_thread(short: Callable[..., RunFolder]) -> None:
    runs: list[RunFolder] = []

    def call() -> None:
        runs.append(short(loss=ScaledLoss))
        runs.append(short(loss=partial(ScaledLoss, factor=0.0), folder="still"))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    trained, still = runs
    assert trained.path.parent.name == "toy-ScaledLoss-tiny_bert"
    assert still.settings()["loss"] == {"_target_": f"{__name__}.ScaledLoss", "factor": 0.0}
    # Without a gradient weight decay alone acts, which is a thousandth of a step.
    start = weights(still.path)["encoder.backbone.encoder.layer.0.attention.self.query.weight"]
    end = weights(trained.path)["encoder.backbone.encoder.layer.0.attention.self.query.weight"]
    assert (start - end).abs().max() > 1e-5


def test_a_run_from_an_experiment(short: Callable[..., RunFolder]) -> None:
    """The first run has what both share; a class in place of a choice is this run's own."""
    write_experiments(Path("conf"))
    run = short(init_from="experiment:one", loss=ScaledLoss, folder="runs/two", settings={"seed": 5})
    first = RunFolder(run.settings()["init_from"])
    assert run.path == Path.cwd() / "runs" / "two"
    assert first.path.parent == Path("runs")
    assert (first.settings()["name"], first.settings()["seed"]) == ("one", 5)
    assert first.settings()["model"] == run.settings()["model"]
    assert first.settings()["loss"]["_target_"].endswith("PearsonLoss")
    assert run.settings()["loss"]["_target_"] == f"{__name__}.ScaledLoss"
    assert len(run.metrics().trained_on) == 2


def test_a_choice_within_another(short: Callable[..., RunFolder]) -> None:
    inner = {"loss@loss.inner": "cosent", "loss.inner.scale": 10.0, "loss.dimensions": [32, 16]}
    loss = short(loss="matryoshka", settings=inner).settings()["loss"]
    assert loss["inner"] == {"_target_": "sts_lightning.losses.cosent.CoSENTLoss", "scale": 10.0}


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"loss": "pearsn"}, ConfigError, "no loss named 'pearsn'. Did you mean pearson"),
        ({"settings": {"optim.lrr": 1}}, ConfigError, "optim.lrr: no such setting. Did you mean optim.lr?"),
        ({"settings": {"optim.lr": "fast"}}, ConfigError, "optim.lr=fast"),
        ({"loss": "infonce"}, ConfigError, "InfoNCELoss needs 2 or more views and no label"),
        ({"settings": {"trainer.devices": 2}}, ConfigError, "several devices"),
        (
            {"settings": {"loss.parts": {"a": "mse"}}, "loss": "joint"},
            ConfigError,
            r"\+loss@loss\.parts\.a=mse",
        ),
    ],
)
def test_errors_are_exceptions_and_leave_nothing(
    short: Callable[..., RunFolder], given: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        short(**given)
    assert not list(Path.cwd().iterdir()), "the folder of the run is removed with its parents"


def test_a_missing_file_is_an_exception() -> None:
    with pytest.raises(DataError, match=r"mine\.csv"):
        sts_lightning.train(data="mine.csv", model="tiny_bert")


def test_ctrl_c_is_an_exception_that_says_how_to_resume(
    short: Callable[..., RunFolder], monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    step = STSModule.training_step

    def stopped(self: STSModule, batch: Any, batch_idx: int) -> Tensor:
        if batch_idx == 2:
            signal.raise_signal(signal.SIGINT)
        return step(self, batch, batch_idx)

    with monkeypatch.context() as patch:
        patch.setattr(STSModule, "training_step", stopped)
        with pytest.raises(InterruptedRunError, match=r"after step 3.*resume=stopped"):
            short(folder="stopped")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    done = cli("train.py", "resume=stopped")
    assert done.returncode == 0, done.stderr
    assert json.loads(Path("stopped/metrics.json").read_text())["dev"]


def test_settings_of_the_command_are_refused() -> None:
    """They would be without effect, and a run that is to be resumed would start anew."""
    with pytest.raises(ConfigError, match=r"resume is a setting of the command\. The same call with folder="):
        sts_lightning.train(data="toy", resume="runs/a")
