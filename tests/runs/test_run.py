"""Whole runs on small models: run folder, determinism, restoring, bad luck."""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.deterministic
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

import sts_lightning
from sts_lightning.cli.main import main
from sts_lightning.config.check import check_config
from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.evaluation.score import score_data
from sts_lightning.models.loading import folder
from sts_lightning.models.loading.hub import OWN_FILE
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.runs.predictions import load_predictions
from sts_lightning.training.assembly import make_data
from sts_lightning.workflows import report
from sts_lightning.workflows.average import average_runs
from sts_lightning.workflows.evaluate import evaluate_in
from sts_lightning.workflows.start import train_in
from tests.conftest import CONF, ROOT, SHORT_RUN
from tests.support.run_entries import edit, train_py
from tests.support.whole_runs import EPOCHS, metrics, same_results, weights

Config = Callable[..., DictConfig]


@pytest.fixture(scope="module")
def ema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose weights are averages, with those of several steps."""
    run = tmp_path_factory.mktemp("ema") / "run"
    short = ["trainer.max_epochs=-1", "trainer.max_steps=6", "trainer.val_every=2", "trainer.keep_every=2"]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        train_in(run, compose("train", [*SHORT_RUN, *short, "callbacks=ema", "optim.lr=1e-3", "name=test"]))
    return run


def test_run_folder_holds_everything(uninterrupted: Path) -> None:
    names = {str(path.relative_to(uninterrupted)) for path in uninterrupted.rglob("*") if path.is_file()}
    assert {
        "config.yaml",
        "metrics.json",
        "history.csv",
        "train.log",
        "model/sts_lightning.json",
        "model/model.safetensors",
        "plots/curves.png",
        "plots/dev_cosines.png",
    } <= names
    assert any(name.startswith("tensorboard/events") for name in names)
    hidden = [name for name in names if "/." in f"/{name}"]
    assert hidden == [".lock"]  # no temporary file is left
    result = metrics(uninterrupted)
    [source] = result["data"]
    assert source.items() >= {"source": "toy pairs", "read": 256, "dropped": {}, "kept": 256}.items()
    # Without the build that the wheels of the package index leave out of their metadata.
    assert torch.__version__.startswith(result["versions"]["torch"])
    assert result["steps"] == 32
    history = RunFolder(uninterrupted).history()
    assert [row["step"] for row in history] == list(range(33))
    assert {"train/loss", "lr", "steps_per_second", "tokens_per_second"} <= history[1].keys()
    scored = [row["step"] for row in history if "dev/spearman" in row]
    assert scored == [0, 4, 8, 12, 16, 20, 24, 28, 32]
    assert result["best_step"] == max(history, key=lambda row: row.get("dev/spearman", -1))["step"]
    assert history[0]["dev/spearman"] == result["dev_untuned"]


def test_monitored_score_equals_the_reported_one(uninterrupted: Path) -> None:
    result = metrics(uninterrupted)
    row = next(row for row in RunFolder(uninterrupted).history() if row["step"] == result["best_step"])
    assert row["dev/spearman"] == pytest.approx(result["dev"]["spearman"], abs=1e-2)  # torchmetrics and scipy
    assert row["dev/pearson"] == pytest.approx(result["dev"]["pearson"], abs=1e-2)


def test_learning_rate_warms_up_and_decays_to_zero(uninterrupted: Path) -> None:
    rates = [row["lr"] for row in RunFolder(uninterrupted).history() if "lr" in row]
    warmup, total, peak = 3, 32, 5e-5
    expected = [
        peak * (step / warmup if step < warmup else (total - step) / (total - warmup))
        for step in range(total)
    ]
    assert rates == pytest.approx(expected, rel=1e-6)


def test_same_seed_same_numbers(uninterrupted: Path, config: Config, tmp_path: Path) -> None:
    train_in(tmp_path / "again", config(*EPOCHS))
    same_results(uninterrupted, tmp_path / "again")


def test_a_folder_with_a_run_is_not_overwritten(uninterrupted: Path, config: Config) -> None:
    before = (uninterrupted / "metrics.json").read_bytes()
    with pytest.raises(ConfigError, match=r"other values of (data\.)?seed.*hydra\.run\.dir"):
        train_in(uninterrupted, config(*EPOCHS, "name=test", "seed=2"))
    assert (uninterrupted / "metrics.json").read_bytes() == before


def test_the_same_command_prints_the_result_of_a_finished_run(
    uninterrupted: Path, config: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = {path: path.stat().st_mtime_ns for path in uninterrupted.rglob("*") if path.name != ".lock"}
    score = metrics(uninterrupted)["dev"]["spearman"]
    with caplog.at_level("INFO"):
        assert train_in(uninterrupted, config(*EPOCHS, "name=test", "trainer.micro_batch_size=8")) == score
        assert train_py(tmp_path / "out", f"resume={uninterrupted}") == score
    assert caplog.text.count(f"{uninterrupted} has finished: dev {score:.2f}, toy ") == 2
    assert files == {path: path.stat().st_mtime_ns for path in uninterrupted.rglob("*") if path in files}


def test_load_restores_the_tuned_encoder(uninterrupted: Path) -> None:
    encoder = sts_lightning.load(uninterrupted)
    assert not encoder.training
    vectors = encoder.encode(["A dog.", "A cat."])
    assert vectors.shape == (2, 32)
    state = weights(uninterrupted)
    for name, value in encoder.state_dict().items():
        assert torch.equal(value, state[f"encoder.{name}"])


def test_template_pooling_and_precision_come_back(config: Config, tmp_path: Path) -> None:
    run = tmp_path / "run"
    cfg = config(*SHORT_RUN, "prompt=promptbert", "evaluation.precision=bf16-true", "trainer.max_steps=2")
    train_in(run, cfg)
    encoder = sts_lightning.load(run)
    assert encoder.config.pooling == "mask_token"
    assert encoder.tokenizer.template == 'This sentence of "{sentence}" means [MASK].'
    assert {parameter.dtype for parameter in encoder.parameters()} == {torch.bfloat16}
    assert {w.dtype for name, w in weights(run).items() if "weight" in name} == {torch.float32}


def test_checkpoint_of_another_model_is_refused(uninterrupted: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(uninterrupted, tmp_path / "run"))
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("hidden_size: 32", "hidden_size: 16"))
    (run / "metrics.json").unlink()
    with pytest.raises(CheckpointError, match="the checkpoint does not belong to this model"):
        train_in(run, RunFolder(run).load_config(), resume=True)


def test_weights_stay_in_float32_under_mixed_precision(config: Config, tmp_path: Path) -> None:
    train_in(tmp_path / "run", config(*SHORT_RUN, "precision=bf16-mixed", "trainer.max_steps=3"))
    dtypes = {value.dtype for value in weights(tmp_path / "run").values() if value.is_floating_point()}
    assert dtypes == {torch.float32}


def no_context(*_: object) -> None:
    raise AssertionError("a run on the CPU initialised CUDA")


def test_a_run_on_the_cpu_leaves_a_card_alone(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of this package's own calls: in Python the card stays visible."""
    if torch.version.cuda is not None:  # in commands, which hide the card, it sees none
        pytest.skip("the optimiser of a build for CUDA asks the driver itself")
    importlib.import_module("peft")  # imports bitsandbytes, which would open the card
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)  # as earlier tests may have left it
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for module in (torch.cuda, torch.cuda.memory, torch.cuda.random):
        monkeypatch.setattr(module, "_lazy_init", no_context)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    train_in(tmp_path / "run", config(*SHORT_RUN, "trainer=cpu", "trainer.max_steps=4"))
    assert metrics(tmp_path / "run")["peak_memory_bytes"].keys() == {"host"}
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_a_command_on_the_cpu_hides_the_card_from_libraries(tmp_path: Path) -> None:
    """bitsandbytes asks each visible card for its kind as soon as peft is imported."""
    code = (
        "import os, runpy, sys, torch\n"
        "torch.cuda.device_count = lambda: int(os.environ.get('CUDA_VISIBLE_DEVICES') != '')\n"
        "torch.cuda.is_available = lambda: torch.cuda.device_count() > 0\n"
        "torch.cuda._lazy_init = lambda: os._exit(7)\n"
        "assert torch.cuda.is_available()\n"
        f"runpy.run_path({str(ROOT / 'train.py')!r}, run_name='__main__')"
    )
    settings = [*SHORT_RUN, "trainer=cpu", "trainer.max_steps=2", f"hydra.run.dir={tmp_path}"]
    visible = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    done = subprocess.run(
        [sys.executable, "-c", code, *settings], env=visible, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert metrics(tmp_path)["steps"] == 2


def recorded(run: Path) -> np.ndarray:
    """Cosines of the test pairs as the encoder of the report computed them."""
    ((cosines, _),) = load_predictions(RunFolder(run)).values()
    return np.asarray(cosines)


def computed_again(run: Path, step: int | None = None) -> np.ndarray:
    cfg = check_config(RunFolder(run).load_config())
    data = make_data(cfg)
    data.setup()
    ((cosines, _),) = score_data(sts_lightning.load(run, step), data, cfg.evaluation).test_found.values()
    return np.asarray(cosines)


def test_the_model_of_a_run_is_the_one_that_was_scored(uninterrupted: Path, ema: Path) -> None:
    for run in (uninterrupted, ema):
        assert np.array_equal(computed_again(run), recorded(run))
    selected = metrics(ema)["best_step"]
    assert selected > 0
    for step in RunFolder(ema).kept_steps():
        assert np.array_equal(computed_again(ema, step), recorded(ema)) == (step == selected)


@pytest.mark.parametrize(
    "overrides",
    [
        ["model=tiny_llama", "prompt=eol", "+model.adapter={_target_: peft.LoraConfig, r: 4}"],
        ["trainer.wise_ft=[0.5]", "optim.lr=2e-2"],
    ],
)
def test_the_model_of_other_runs_is_the_one_that_was_scored(
    overrides: list[str], config: Config, tmp_path: Path
) -> None:
    train_in(tmp_path / "run", config(*SHORT_RUN, "trainer.max_steps=4", "optim.lr=1e-3", *overrides))
    assert np.array_equal(computed_again(tmp_path / "run"), recorded(tmp_path / "run"))
    if "wise_ft" in overrides[0]:
        assert metrics(tmp_path / "run")["wise_ft"]["share"] == 0.5


@pytest.mark.parametrize(
    ("function", "lost", "error"),
    [
        ("plot_curves", "plots", RuntimeError("latex could\nnot be found")),
        ("write_page", "report.html", OSError("disk full")),
    ],
)
def test_what_shows_the_results_cannot_lose_them(
    function: str,
    lost: str,
    error: Exception,
    config: Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run, save = RunFolder(tmp_path / "run"), RunFolder.save_metrics

    def saving(folder: RunFolder, results: RunMetrics) -> None:
        assert (run.model() / OWN_FILE).is_file()
        save(folder, results)

    def broken(*arguments: Any) -> None:
        assert run.finished
        raise error

    monkeypatch.setattr(RunFolder, "save_metrics", saving)
    monkeypatch.setattr(report, function, broken)
    train_in(run.path, config(*SHORT_RUN, "trainer.max_epochs=-1", "trainer.max_steps=2"))
    assert np.array_equal(computed_again(run.path), recorded(run.path))
    assert metrics(run.path)["best_step"] > 0
    message = " ".join(str(error).split())
    assert f"WARNING: {lost} could not be made ({type(error).__name__}: {message})" in caplog.text


def test_a_full_disk_when_the_model_is_written(
    uninterrupted: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that is written last does not fit; the model appears when the run is resumed."""

    def full(path: Path, content: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    run = RunFolder(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(folder, "write_json", full)
        with pytest.raises(OSError, match="No space left"):
            train_in(run.path, config(*EPOCHS))
    assert run.state == "interrupted"
    assert {path.name for path in run.path.iterdir()}.isdisjoint({"model", "metrics.json"})
    train_in(run.path, run.load_config(), resume=True)
    same_results(uninterrupted, run.path)
    assert [path.name for path in run.path.glob(".*")] == [".lock"]


def test_a_finished_run_is_data(
    ema: Path,
    config: Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No class that its configuration names is built by anything but resuming."""
    monkeypatch.setattr(os, "system", lambda *arguments, **settings: os._exit(7))
    run, selected = Path(shutil.copytree(ema, tmp_path / "run")), metrics(ema)["best_step"]

    def replaced(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        return {key: "os.system" if key == "_target_" else replaced(value) for key, value in node.items()}

    edit(
        run / "config.yaml",
        lambda cfg: cfg.update({group: replaced(cfg[group]) for group in ("model", "loss", "callbacks")}),
    )
    assert (run / "config.yaml").read_text().count("os.system") == 3
    pairs = tmp_path / "pairs.csv"
    lines = [f"a {word} ran,the {word} sat,{n}" for n, word in enumerate(("dog", "cat", "boy", "farmer"))]
    pairs.write_text("sentence1,sentence2,score\n" + "\n".join(lines))
    scores = [
        evaluate_in(
            tmp_path / f"eval {source.parent.name}",
            config(f"ckpt={source}", f"step={selected}", f"test={pairs}", "accelerator=cpu", of="eval"),
        )
        for source in (ema, run)
    ]
    assert scores[0] == scores[1]
    assert {path.name for path in run.glob("checkpoints/*")} == {
        path.name for path in ema.glob("checkpoints/*")
    }
    capsys.readouterr()
    printed = []
    for source in (ema, run):
        main(["similarity", str(source), str(pairs)])
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    mined = ["--columns", "sentence1", "sentence2", "--relative-margin", "0", "--max-score", "1"]
    main(
        [
            "data",
            "mine",
            str(run),
            str(pairs),
            "--to",
            str(tmp_path / "mined.csv"),
            "--negatives",
            "1",
            *mined,
        ]
    )
    assert (tmp_path / "mined.csv").is_file()
    train_in(tmp_path / "next", config(*SHORT_RUN, "trainer.max_steps=1", f"init_from={run}"))
    assert metrics(tmp_path / "next")["dev_untuned"] == pytest.approx(
        metrics(ema)["dev"]["spearman"], abs=1e-2
    )
    with pytest.raises(CheckpointError, match=r"os\.system"):
        average_runs([run], tmp_path / "average")
