"""The commands, run as a user runs them."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from sts_lightning.cli import hydra_app as app
from sts_lightning.core.errors import DataError
from tests.conftest import ROOT, SHORT_RUN

Cli = Callable[..., subprocess.CompletedProcess[str]]
Script = Callable[..., tuple[object, str]]


def test_help_needs_no_torch(cli: Cli) -> None:
    done = cli("train.py", "--help")
    assert done.returncode == 0
    assert "loss: angle, concordance, contrastive_tension, cosent, " in " ".join(done.stdout.split())
    code = "import runpy, sys\nsys.argv = ['train.py', '--help']\n"
    code += "try:\n  runpy.run_path('train.py', run_name='__main__')\n"
    code += "except SystemExit:\n  pass\nassert 'torch' not in sys.modules"
    silent = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert silent.returncode == 0


@pytest.mark.parametrize(
    ("script", "wrong"), [("train.py", "dev=suit"), ("train.py", "optim.schedule=x"), ("eval.py", "suite=x")]
)
def test_a_wrong_choice_is_rejected_before_torch_is_imported(script: str, wrong: str, tmp_path: Path) -> None:
    code = f"import runpy, sys\nsys.modules['torch'] = None\nsys.argv = ['{script}', '{wrong}']\n"
    code += f"runpy.run_path({str(ROOT / script)!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False, text=True
    )
    assert not list(tmp_path.iterdir())
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {wrong} is not among ")


def test_train_then_evaluate_the_run(cli: Cli, tmp_path: Path) -> None:
    done = cli(
        "train.py",
        *SHORT_RUN,
        "trainer.max_steps=4",
        "hydra.run.dir=run",
        "evaluation.untuned=true",
        fresh=True,
    )
    assert done.returncode == 0, done.stderr
    assert "gain" in done.stdout
    assert "results, plots and weights: run" in done.stdout
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["test_untuned"] is not None
    again = cli("train.py", "resume=run", fresh=True)
    assert again.returncode == 3
    assert again.stderr.startswith(
        "error: run has finished: its results are in run/metrics.json. To train on"
    )
    other = cli("train.py", "resume=run", "seed=3")
    assert "leave out seed=3. run has finished. To train on" in other.stderr
    assert all(
        "new run with its model and data, and init_from=run." in text for text in (again.stderr, other.stderr)
    )
    further = cli("train.py", *SHORT_RUN, "trainer.max_steps=4", "hydra.run.dir=more", "init_from=run")
    assert further.returncode == 0, further.stderr


@pytest.fixture
def script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[object, str]]]:
    """Runs train.py or eval.py in an empty folder, but in this process, to a mistake: status and message."""
    quiet = ["hydra/job_logging=none", "hydra/hydra_logging=none"]
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    monkeypatch.chdir(tmp_path)

    def call(name: str, *arguments: str) -> tuple[object, str]:
        GlobalHydra.instance().clear()
        monkeypatch.setattr(sys, "argv", [name, *arguments, *quiet])
        with pytest.raises(SystemExit) as left:
            runpy.run_path(str(ROOT / name), run_name="__main__")
        code, said = left.value.code, capsys.readouterr().err
        return (1, f"{said}{code}\n") if isinstance(code, str) else (code, said)  # as Python ends

    yield call
    GlobalHydra.instance().clear()
    HydraConfig.instance().cfg = None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["loss.temprature=1"], "loss.temprature: no such setting."),
        (["max_steps=5"], "Did you mean trainer.max_steps?"),
        (
            ["regularizer.coefficient=1"],
            "regularizer=global_orthogonal and regularizer=rank_reduction.",
        ),
        (
            ["auxiliary.sources=[a]", "auxiliary.pooling=cls"],
            "auxiliary.sources: no such setting. It belongs to auxiliary=teacher.",
        ),
        (["trainer.max_step=5", "optim.lrr=1"], "trainer.max_step: no such setting. See `"),
        (["regularizer.coeficient=1"], "regularizer.coeficient: no such setting. Did you mean regularizer?"),
        (["loss=pearsn"], "there is no loss named 'pearsn'. Did you mean pearson"),
        (["optim.lr=high"], "optim.lr=high"),
        (["prompt.template={sentence}: it"], """the shell: 'prompt.template="{sentence}: it"'."""),
        (["callbacks=emma"], "there is no callback named 'emma'. Did you mean ema?"),
        (["loss=infonce", "data=toy"], "InfoNCELoss needs 2 or more views and no label, but ToyData gives"),
        (["data_root=nowhere"], "nowhere: no STS data here"),
        (["data=pairs_file", "path=none.csv"], "none.csv: cannot be read"),
        (["resume=."], ". is not a run folder"),
        (["resume=''"], "resume needs the folder of a run."),
        (["plan=24GB"], "plan: no such setting. Did you mean the option --plan"),
        (["+trust=[a]"], "trust: no such setting. Did you mean the option --trust NAME?"),
        (["--trust", "-m"], "--trust needs a name."),
        (["--plan"], "--plan lists the jobs of a sweep: add -m"),
        (["data=toy", "--stage", "one"], "--stage one: this run has no stages."),
    ],
)
def test_a_mistake_is_one_message_and_leaves_nothing(
    arguments: list[str], message: str, script: Script, tmp_path: Path
) -> None:
    status, said = script("train.py", *arguments)
    assert status == 1
    assert message in said
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert list(tmp_path.rglob("*")) == []


def test_a_file_in_the_place_of_a_folder(script: Script, tmp_path: Path) -> None:
    (tmp_path / "one.csv").touch()
    for folder in ("one.csv", "one.csv/x"):
        status, told = script("train.py", "model=tiny_bert", "data=toy", f"hydra.run.dir={folder}")
        assert status == 1
        assert told.startswith("error: ")
        assert "one.csv" in told


def test_options_of_hydra_that_exclude_each_other(script: Script) -> None:
    status, told = script("train.py", "-m", "--cfg", "job", "seed=1,2")
    assert (status, told.startswith("error: Only one of --run, --multirun")) == (1, True)


@pytest.mark.parametrize("option", ["--seed=1", "-seed=1"])
def test_settings_have_no_dashes(option: str, script: Script) -> None:
    status, said = script("train.py", option)
    assert status == 2
    assert "unrecognized arguments: " in said
    assert said.endswith("Settings are given as key=value, without dashes, as in seed=1.\n")


def test_debug_shows_the_stack(script: Script) -> None:
    with pytest.raises(DataError, match="no STS data here"):
        script("train.py", "data_root=nowhere", "--debug")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data_root=nowhere"], "nowhere: no STS data here"),
        (["ckpt=nowhere"], "nowhere is not a run folder"),
        (["aggregate=median"], "aggregate=median is not among all, mean, wmean"),
        (["precision=bf16-mixed"], "precision=bf16-mixed is not among"),
    ],
)
def test_evaluation_mistakes(arguments: list[str], message: str, script: Script, mini_root: str) -> None:
    status, said = script("eval.py", f"data_root={mini_root}", "tasks=[STSB]", *arguments)
    assert status == 1
    assert message in said
    assert said.count("\n") == 1


@pytest.fixture
def mini_root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A data root with one task of generated pairs."""
    root = tmp_path_factory.mktemp("data")
    folder = root / "senteval" / "STS" / "STSBenchmark"
    folder.mkdir(parents=True)
    (root / "senteval" / "counts.json").write_text("{}")
    rows = [f"g\tf\ty\t{i}\t{i % 6}\tsentence {i}\tanother {i * 7}" for i in range(30)]
    (folder / "sts-test.csv").write_text("\n".join(rows))
    return str(root)


def test_evaluation_of_a_run_repeats_its_scores(cli: Cli, mini_root: str, tmp_path: Path) -> None:
    assert cli("train.py", *SHORT_RUN, "trainer.max_steps=3", "hydra.run.dir=run").returncode == 0
    arguments = ["ckpt=run", f"data_root={mini_root}", "tasks=[STSB]"]
    scores = []
    for folder in ("one", "two"):
        done = cli("eval.py", *arguments, f"hydra.run.dir={folder}", fresh=folder == "one")
        assert done.returncode == 0, done.stderr
        scores.append(json.loads((tmp_path / folder / "metrics.json").read_text())["test"])
    assert scores[0] == scores[1]
    assert set(scores[0]["tasks"]) == {"STSB"}


def test_ctrl_c_then_resume(tmp_path: Path, cli: Cli) -> None:
    arguments = [*SHORT_RUN, "data.batch_size=4", "trainer.max_epochs=200", "hydra.run.dir=run"]
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("step 16"):
                break
        process.send_signal(signal.SIGINT)
        started = time.monotonic()
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert time.monotonic() - started < 30
    assert "stopped by Ctrl-C after step" in errors
    assert "train.py resume=run" in errors
    assert "Traceback" not in errors
    assert (tmp_path / "run" / "checkpoints" / "last.ckpt").is_file()
    assert not (tmp_path / "run" / "metrics.json").exists()
    config = (tmp_path / "run" / "config.yaml").read_text()
    (tmp_path / "run" / "config.yaml").write_text(config.replace("max_epochs: 200", "max_epochs: 1"))
    done = cli("train.py", "resume=run")
    assert "resuming after step" in done.stdout, done.stderr


def test_hydras_own_launcher_gives_each_job_a_folder_too(cli: Cli, tmp_path: Path) -> None:
    basic = ["hydra/launcher=basic", "hydra.sweep.dir=sweep"]
    done = cli("train.py", "-m", *SHORT_RUN, "trainer.max_steps=2", "seed=1,2", *basic)
    assert done.returncode == 0, done.stderr
    seeds = [
        json.loads((tmp_path / "sweep" / job / "metrics.json").read_text())["seed"] for job in ("0", "1")
    ]
    assert seeds == [1, 2]


Config = Callable[..., DictConfig]


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("model=null", "minilm"),
        ("loss=5", "infonce"),
        ("logger=true", "tensorboard"),
    ],
)
def test_a_group_that_is_not_a_name(
    argument: str,
    named: str,
    config: Config,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["train.py", "seed=2", "data=toy", argument])
    with pytest.raises(SystemExit) as left:
        app.run(lambda: config("seed=2", argument), "train")
    printed = str(left.value.code)
    assert printed.startswith(f"error: {argument}: {argument.partition('=')[0]} is chosen by name among")
    assert named in printed


def test_other_value_errors_are_not_swallowed() -> None:
    def fails() -> None:
        raise ValueError("something else")

    with pytest.raises(ValueError, match="something else"):
        app.run(fails, "train")
