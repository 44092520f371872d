from __future__ import annotations

import copy
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.schema import EvaluationConfig, PromptConfig, register_schemas
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.support.hub_server import hub as hub
from tests.support.warm import WarmInterpreter

ROOT = Path(__file__).resolve().parents[1]
CONF = ROOT / "conf"
PAPERS_CONF = ROOT / "src" / "sts_lightning" / "papers" / "conf"
OF_ENCODER: dict[str, dict[str, None]] = {
    group: dict.fromkeys(schema.model_fields)
    for group, schema in (("prompt", PromptConfig), ("evaluation", EvaluationConfig))
}
"""Parts of a run's configuration that have to be complete."""

register_schemas()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in what a shell starts with &, and in its children
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # likewise under nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

EXACT = "precision=32-true"
"""Put first, so that a test may override it: precision=auto depends on the machine."""

SHORT_DATA = [EXACT, "data=toy", "data.train_size=256", "data.dev_size=40", "data.test_size=40"]
"""Overrides that leave the model to the test."""

SHORT_RUN = ["model=tiny_bert", *SHORT_DATA]
"""Overrides that make a run of a few seconds: 16 steps an epoch with batch 16."""


def pytest_configure(config: pytest.Config) -> None:
    """Hide the GPUs from all tests but those of `make check-gpu`: the expected numbers are those of a CPU."""
    if config.getoption("markexpr", "") != "gpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def pytest_collection_finish() -> None:
    """Spare the garbage collector the imported libraries, a quarter of the time of composing."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(scope="session", autouse=True)
def _each_yaml_file_is_parsed_once() -> Iterator[None]:
    """Composing reads two dozen files of conf/, and parsing them takes a fifth of its time."""
    load, parsed = OmegaConf.load, {}

    def load_once(source: str | Path | IO[str]) -> Any:
        path = Path(getattr(source, "name", "") if hasattr(source, "read") else source).resolve()
        if not path.is_relative_to(CONF) and not path.is_relative_to(PAPERS_CONF):
            return load(source)
        key = (path, path.stat().st_mtime_ns)
        if key not in parsed:
            parsed[key] = load(source)
        return copy.deepcopy(parsed[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OmegaConf, "load", load_once)
        yield


@pytest.fixture
def data_root() -> str:
    """The real data, where the environment says it is."""
    root = os.environ.get("STS_DATA_ROOT")
    if not root:
        pytest.skip("needs the STS data: set STS_DATA_ROOT")
    return root


@pytest.fixture
def encoder() -> SentenceEncoder:
    return tiny_bert(dropout=0.0).eval()


@pytest.fixture
def keeps_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs keep the state to resume from, so that one without metrics.json was killed in its report."""
    monkeypatch.setattr(RunFolder, "remove_state", lambda run: None)


@pytest.fixture
def config() -> Iterator[Callable[..., DictConfig]]:
    """Composes a configuration from overrides, outside a Hydra job."""
    with initialize_config_dir(str(CONF), version_base="1.3"):

        def make(*overrides: str, of: str = "train") -> DictConfig:
            name = (
                ["name=test"] if of == "train" and not any(o.startswith("name=") for o in overrides) else []
            )
            exact = [EXACT] if of == "train" else []
            return compose(of, [*exact, *overrides, *name])

        yield make


@pytest.fixture(scope="session")
def warm() -> WarmInterpreter:
    return WarmInterpreter()


@pytest.fixture
def cli(tmp_path: Path, warm: WarmInterpreter) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs train.py or eval.py as a user does, in an empty folder and a process of its own.

    The process is forked from one with the imports done; with `fresh` it is a new interpreter, for tests of
    the start itself and of variables that an import reads.
    """

    def call(script: str, *arguments: str, fresh: bool = False) -> subprocess.CompletedProcess[str]:
        resumes = any(argument.startswith("resume=") for argument in arguments)
        settings = [argument for argument in arguments if not argument.startswith("-")]
        flags = [argument for argument in arguments if argument.startswith("-")]
        exact = [EXACT] if script == "train.py" and not resumes else []
        ordered = [*flags, *exact, *settings]
        if not fresh:
            return warm.run(ROOT / script, ordered, tmp_path, timeout=300)
        return subprocess.run(
            [sys.executable, str(ROOT / script), *ordered],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return call
