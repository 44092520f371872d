from __future__ import annotations

import copy
import gc
import inspect
import multiprocessing
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from types import CodeType, FunctionType
from typing import IO, Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.schema import EvaluationConfig, PromptConfig, register_schemas
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.support.hub_server import hub as hub
from tests.support.warm import WarmInterpreter

ROOT = Path(__file__).resolve().parents[1]
CONF = ROOT / "conf"
OF_ENCODER: dict[str, dict[str, None]] = {
    group: dict.fromkeys(field.name for field in fields(schema))
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

SLOW_FOLDERS = {"gpu", "scenarios", "real"}
SLOW_FIXTURES = {"cli", "uninterrupted"}
SLOW_CALLS = {
    "Popen",
    "fit",
    "multiprocessing",
    "resume_stages",
    "run_job",
    "run_jobs",
    "run_stages",
    "run_table",
    "spawn",
    "submit_to_ray",
    "subprocess",
    "train_in",
    "train_py",
    "trained_peak",
}
"""A test that calls one of these, itself or through a fixture or a helper of the tests, is slow."""
LONG_FIXTURES = {"cli", "outcome", "ray_address"}
"""A test with one of these starts several processes or waits for those that others start."""
FAST_FIXTURES = {"no_weights"}
"""With one of these a call of the list above ends before anything is trained or started."""

SHORT_DATA = [EXACT, "data=toy", "data.train_size=256", "data.dev_size=40", "data.test_size=40"]
"""Overrides that leave the model to the test."""

SHORT_RUN = ["model=tiny_bert", *SHORT_DATA]
"""Overrides that make a run of a few seconds: 16 steps an epoch with batch 16."""


def pytest_configure(config: pytest.Config) -> None:
    """Hide the GPUs from all tests but those of `make check-gpu`: the expected numbers are those of a CPU."""
    if config.getoption("markexpr", "") != "gpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as slow every test that trains or starts a process; `make test-fast` leaves those out.

    Random kills are left out unless they are asked for.
    """
    if config.getoption("markexpr", "") != "kills":
        random_kills = [item for item in items if item.get_closest_marker("kills") is not None]
        items[:] = [item for item in items if item not in random_kills]
        config.hook.pytest_deselected(items=random_kills)
    for item in items:
        if isinstance(item, pytest.Function) and _is_slow(item):
            item.add_marker(pytest.mark.slow)
    if items and hasattr(items[0].config, "workerinput"):
        _longest_files_first(items)


def _longest_files_first(items: list[pytest.Item]) -> None:
    """Order the files for several workers: a long one that starts last would leave all others idle."""
    cost: Counter[Path] = Counter()
    for item in items:
        starts = isinstance(item, pytest.Function) and not LONG_FIXTURES.isdisjoint(item.fixturenames)
        slow = item.get_closest_marker("slow") is not None
        cost[item.path] += 20 if starts else 5 if slow else 0.2  # seconds, roughly
    items.sort(key=lambda item: -cost[item.path])


def pytest_collection_finish() -> None:
    """Spare the garbage collector the imported libraries, a quarter of the time of composing."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _is_slow(item: pytest.Function) -> bool:
    if SLOW_FOLDERS.intersection(item.path.relative_to(ROOT / "tests").parts):
        return True
    fixtures = set(item.fixturenames)
    if fixtures & FAST_FIXTURES:
        return False
    made = [definitions[-1].func for definitions in item._fixtureinfo.name2fixturedefs.values()]
    own = [f for f in made if f.__module__.startswith("tests.") and f.__module__ != __name__]
    functions = [inspect.unwrap(function) for function in (item.function, *own)]
    names = set().union(*(_names_used(function, set()) for function in functions))
    return bool(fixtures & SLOW_FIXTURES or names & SLOW_CALLS)


@pytest.fixture(autouse=True)
def _neither_trains_nor_starts_an_interpreter(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hold tests that are not marked slow to it."""
    if request.node.get_closest_marker("slow") is not None:
        return

    def forbidden(*args: Any, **settings: Any) -> None:
        pytest.fail("mark this test with pytest.mark.slow: it trains or starts an interpreter")

    popen = subprocess.Popen.__init__

    def start(process: Any, command: Any, *args: Any, **settings: Any) -> None:
        first = command if isinstance(command, str) else str(command[0])
        (forbidden if first == sys.executable else popen)(process, command, *args, **settings)

    monkeypatch.setattr(subprocess.Popen, "__init__", start)
    monkeypatch.setattr(multiprocessing.get_context("spawn").Process, "start", forbidden)
    if "lightning.pytorch" in sys.modules:
        monkeypatch.setattr("lightning.pytorch.Trainer.fit", forbidden)


def _names_in(code: CodeType) -> set[str]:
    """Names in a body, those of lambdas and comprehensions included."""
    nested = [_names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*nested)


def _names_used(function: FunctionType, seen: set[FunctionType]) -> set[str]:
    """Names in the body of a function and of the test helpers that it calls."""
    seen.add(function)
    names = _names_in(function.__code__)
    for name in list(names):
        helper = function.__globals__.get(name)
        if isinstance(helper, FunctionType) and helper.__module__.startswith("tests.") and helper not in seen:
            names |= _names_used(helper, seen)
    return names


@pytest.fixture(scope="session", autouse=True)
def _each_yaml_file_is_parsed_once() -> Iterator[None]:
    """Composing reads two dozen files of conf/, and parsing them takes a fifth of its time."""
    load, parsed = OmegaConf.load, {}

    def load_once(source: str | Path | IO[str]) -> Any:
        path = Path(getattr(source, "name", "") if hasattr(source, "read") else source).resolve()
        if not path.is_relative_to(CONF):
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
    monkeypatch.setattr("sts_lightning.workflows.report.drop_optimizer", lambda run: None)


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
