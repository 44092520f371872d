from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from sts_lightning.config.schema import register_schemas
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.hub_server import hub as hub

ROOT = Path(__file__).resolve().parents[1]
CONF = ROOT / "conf"

register_schemas()

EXACT = "precision=32-true"
"""Put first, so that a test may override it: precision=auto depends on the machine."""

SLOW_FOLDERS = {"scenarios", "real"}
SLOW_FILES = {"test_golden", "test_processes", "test_recipes", "test_resume", "test_run", "test_optuna"}
SLOW_FIXTURES = {"cli", "uninterrupted"}
SLOW_CALLS = {
    "subprocess",
    "multiprocessing",
    "Popen",
    "spawn",
    "train_in",
    "run_stages",
    "run_jobs",
    "trained_peak",
}
"""A test that calls one of these, itself or through a helper of the tests, trains or starts a process."""

SHORT_DATA = [EXACT, "data=toy", "data.train_size=256", "data.dev_size=40", "data.test_size=40"]
"""Overrides that leave the model to the test."""

SHORT_RUN = ["model=tiny_bert", *SHORT_DATA]
"""Overrides that make a run of a few seconds: 16 steps an epoch with batch 16."""


def pytest_configure(config: pytest.Config) -> None:
    """Hide the GPUs from all tests but those of `make check-gpu`: the expected numbers are those of a CPU."""
    if config.getoption("markexpr", "") != "gpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow every test that trains or starts a process; `make test-fast` leaves those out."""
    for item in items:
        if isinstance(item, pytest.Function) and _is_slow(item):
            item.add_marker(pytest.mark.slow)


def _is_slow(item: pytest.Function) -> bool:
    path = item.path.relative_to(ROOT / "tests")
    if path.stem in SLOW_FILES or SLOW_FOLDERS.intersection(path.parts):
        return True
    if SLOW_FIXTURES.intersection(item.fixturenames):
        return True
    return bool(SLOW_CALLS.intersection(_names_used(item.function, set())))


def _names_used(function: FunctionType, seen: set[FunctionType]) -> set[str]:
    """Names in the body of a function and of the test helpers that it calls."""
    seen.add(function)
    names = set(function.__code__.co_names)
    for name in list(names):
        helper = function.__globals__.get(name)
        if isinstance(helper, FunctionType) and helper.__module__.startswith("tests.") and helper not in seen:
            names |= _names_used(helper, seen)
    return names


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


@pytest.fixture
def cli(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs train.py or eval.py as a user does, in an empty folder."""

    def call(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        resumes = any(argument.startswith("resume=") for argument in arguments)
        settings = [argument for argument in arguments if not argument.startswith("-")]
        flags = [argument for argument in arguments if argument.startswith("-")]
        exact = [EXACT] if script == "train.py" and not resumes else []
        return subprocess.run(
            [sys.executable, str(ROOT / script), *flags, *exact, *settings],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return call
