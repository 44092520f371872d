"""The wheel in an environment of its own, used in a folder with nothing but the user's files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from sts_lightning.runs.folder import RunFolder
from tests.conftest import CONF, ROOT, SHORT_RUN

FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff")

WATCH = f"""
import os, sys

def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if path.startswith({str(ROOT) + os.sep!r}) and not path.startswith({sys.prefix!r}):
            with open(os.environ["OPENED"], "a") as file:
                print(path, file=file)

sys.addaudithook(watch)
"""

Program = Callable[..., subprocess.CompletedProcess[str]]


def run(*command: str | Path, **settings: object) -> str:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=300, check=False, **settings
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(hook: str, source: Path, to: Path) -> Path:
    """Build an archive as pip does, without the network."""
    code = f"import setuptools.build_meta as backend; backend.{hook}({str(to)!r})"
    to.mkdir()
    run(sys.executable, "-c", code, cwd=source)
    (made,) = to.iterdir()
    return made


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel of the checkout, and that of its source archive."""
    folder = tmp_path_factory.mktemp("build")
    source = folder / "source"
    for name in ("src", "conf"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, source)
    archive = build("build_sdist", source, folder / "archive")
    with tarfile.open(archive) as file:
        file.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    stale = source / "build/lib/sts_lightning/conf/loss/stale.yaml"
    stale.parent.mkdir(parents=True)
    stale.touch()  # of an earlier build
    return build("build_wheel", source, folder / "one"), build("build_wheel", unpacked, folder / "other")


@pytest.fixture(scope="module")
def environment(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, which sees the libraries of this one but not the checkout."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    # The folder alone: files there that lead to an editable installation are not read.
    (packages / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    (packages / "sitecustomize.py").write_text(WATCH)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin/python")
    run(*pip, "install", "--no-deps", "--no-index", built[0], env={**os.environ, "OPENED": os.devnull})
    return folder


@pytest.fixture
def opened(tmp_path: Path) -> Path:
    """List of the files of the checkout that programs of the environment open."""
    path = tmp_path.with_name(f"{tmp_path.name}-opened")
    path.touch()
    return path


@pytest.fixture
def program(environment: Path, opened: Path, tmp_path: Path) -> Iterator[Program]:
    """The program in a folder with a loss and a table of the user. It opens no file of the checkout."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "STS_"))}

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(environment / "bin/sts-lightning"), *arguments],
            cwd=tmp_path,
            env={**own, "OPENED": str(opened)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    for name, text in {
        "sts_lightning": "",
        "loss/mine.yaml": "defaults: [cosent]\nscale: 10.0\n",
        "reproduce/mine.yaml": TABLE,
    }.items():
        path = tmp_path / "conf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    yield call
    assert opened.read_text() == ""


TABLE = f"""
title: Mine
needs: up to 6 min
seeds: [1]
columns: [dev]
rows: {{mine: {[*SHORT_RUN, "trainer.max_epochs=1", "loss=mine"]}}}
"""


def test_the_wheel_has_every_file_and_so_has_that_of_the_source_archive(built: tuple[Path, Path]) -> None:
    one, other = (
        {name: file.read(name) for name in file.namelist() if not name.endswith("RECORD")}
        for file in map(ZipFile, built)
    )
    assert one == other
    expected = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and not {"__pycache__"}.intersection(path.parts) and "egg-info" not in str(path)
    }
    expected |= {f"sts_lightning/conf/{path.relative_to(CONF)}" for path in CONF.rglob("*") if path.is_file()}
    assert {name for name in one if ".dist-info/" not in name} == expected


def test_the_watch_sees_a_file_of_the_checkout(environment: Path, opened: Path) -> None:
    code = f"open({str(ROOT / 'README.md')!r})"
    run(environment / "bin/python", "-c", code, env={**os.environ, "OPENED": str(opened), "PYTHONPATH": ""})
    assert opened.read_text() == f"{ROOT / 'README.md'}\n"


def test_training_and_evaluation(program: Program, tmp_path: Path) -> None:
    rows = "".join(f"a man plays {i},a man sings {i % 7},{i % 6}\n" for i in range(60))
    (tmp_path / "mine.csv").write_text(f"sentence1,sentence2,score\n{rows}")
    own = ["model=tiny_bert", "loss=mine", "data=pairs_file", "path=mine.csv", "trainer.max_epochs=1"]
    trained = program("train", *own, "evaluation.final=false", "hydra.run.dir=run")
    assert trained.returncode == 0, trained.stderr
    assert str(tmp_path / "conf") in trained.stdout
    assert RunFolder(tmp_path / "run").load_config().loss.scale == 10.0
    evaluated = program("eval", "ckpt=run", "test=mine.csv", "hydra.run.dir=scores")
    assert evaluated.returncode == 0, evaluated.stderr
    assert "mine" in RunFolder(tmp_path / "scores").metrics().scores
    assert program("train", "resume=run").returncode == 0
    assert program("runs", "check", "run").returncode == 0


def test_mistakes_and_hydras_options(program: Program, tmp_path: Path) -> None:
    mistaken = program("train", "loss=minee")
    assert mistaken.returncode == 1
    assert "Did you mean mine?" in mistaken.stderr
    unknown = program("train", "trainer.max_step=3")
    assert unknown.returncode == 1
    assert "See `sts-lightning train --help`" in unknown.stderr
    debugged = program("--debug", "eval", "mdel=minilm")
    assert debugged.returncode == 1
    assert "Traceback" in debugged.stderr
    shown = program("train", "--cfg", "job", "loss=mine", "--package", "loss")
    assert "scale: 10.0" in shown.stdout
    helped = program("train", "--help")
    assert ", mine, " in helped.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conf"]


def test_a_job_of_a_sweep_has_the_package_and_the_users_folder(program: Program, tmp_path: Path) -> None:
    (tmp_path / "conf").rename(tmp_path / "settings")
    data = ["model=tiny_bert", "data=pairs_file", "path=absent.csv"]  # ends the job soon
    swept = program("train", "-m", "--config-dir", "settings", "loss=mine", *data, "hydra.sweep.dir=sweep")
    assert swept.returncode == 1
    (output,) = tmp_path.glob("sweep/*/output.log")
    told = output.read_text()
    assert str(tmp_path / "settings") in told
    assert told.splitlines()[-1].startswith("error: absent.csv")


def test_tables_and_data(program: Program, tmp_path: Path) -> None:
    planned = program("reproduce", "plan", "mine", "--card", "24GB")
    assert planned.returncode == 0, planned.stderr
    assert "sts-lightning train " in planned.stdout
    assert "1 run, 1 left" in planned.stdout
    ran = program("reproduce", "run", "mine")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "runs/reproduce/tables/mine.md").is_file()
    tables = program("reproduce", "list").stdout
    assert "Mine" in tables and "pcc_table3" in tables
    assert "Did you mean mine?" in program("plan", "loss=minee").stderr
    listed = program("data", "status")
    assert "triplets" in listed.stdout.replace("\n", ""), listed.stderr
