"""A finished run as someone else might send it, and every way in which this project reads one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, open_dict

import sts_lightning
from sts_lightning.config.folders import Entry
from sts_lightning.evaluation.suites import Suite
from sts_lightning.export.export import export
from sts_lightning.models.loading.folder import write_model
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.workflows import evaluate
from sts_lightning.workflows import start as job
from sts_lightning.workflows.average import average_runs
from tests.conftest import CONF, SHORT_RUN

Edit = Callable[[dict[str, Any]], None]

SHORT = [
    *SHORT_RUN,
    "data.train_size=32",
    "data.batch_size=16",
    "trainer.max_epochs=-1",
    "trainer.max_steps=2",
    "logger=csv",
    "evaluation.final=false",
    "name=test",
]

PAYLOAD = """
from pathlib import Path
Path({marker!r}).touch()
def run(*arguments, **settings):
    return None
"""


class Bomb:
    """Pickles to a call that writes the marker."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


@contextmanager
def composed(name: Entry, *overrides: str, output: Path, mode: str = "RUN") -> Iterator[DictConfig]:
    """A configuration within what looks like a Hydra job."""
    GlobalHydra.instance().clear()
    previous = HydraConfig.instance().cfg
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            cfg = compose(name, list(overrides), return_hydra_config=True)
            with open_dict(cfg):
                cfg.hydra.runtime.output_dir = str(output)
                cfg.hydra.mode = mode
            HydraConfig.instance().set_config(cfg)
            with open_dict(cfg):
                del cfg["hydra"]
            yield cfg
    finally:
        HydraConfig.instance().cfg = previous
        GlobalHydra.instance().clear()


def train_py(output: Path, *overrides: str) -> float:
    """`python train.py`, in this process."""
    with composed("train", *overrides, output=output) as cfg:
        return job.train(cfg)


def write_finished(folder: Path) -> None:
    """Write what a finished run with its state leaves, without training: configuration, weights, results."""
    run = RunFolder(folder)
    with composed("train", *SHORT, "prompt=none", output=folder) as cfg:
        encoder = build_encoder(cfg.model, cfg.prompt)
        run.checkpoints.mkdir(parents=True)
        run.save_config(cfg)
    weights = {f"encoder.{name}": value for name, value in encoder.state_dict().items()}
    state = {"optimizer_states": [], "lr_schedulers": [], "loops": {}, "callbacks": {}}
    for which, more in {"best": {}, "last": state}.items():
        torch.save(
            {"state_dict": weights, "global_step": 2, "epoch": 0, **more}, run.checkpoints / f"{which}.ckpt"
        )
    write_model(encoder, run.model(), step=2)
    run.save_metrics(RunMetrics(None, {"spearman": 50.0, "pearson": 50.0, "pairs": 40}))
    run.log_file.touch()


def load(run: Path, output: Path, *consent: str) -> None:
    sts_lightning.load(run, trust_remote_code=bool(consent))


def eval_py(run: Path, output: Path, *consent: str) -> None:
    with composed("eval", f"ckpt={run}", "accelerator=cpu", *consent, output=output) as cfg:
        evaluate.evaluate_in(output, cfg)


def export_run(run: Path, output: Path, *consent: str) -> None:
    export(run, output, "merged", trust_remote_code=bool(consent))


def resume(run: Path, output: Path, *consent: str) -> None:
    (run / "metrics.json").unlink(missing_ok=True)
    train_py(output, f"resume={run}", *consent)


def init_from(run: Path, output: Path, *consent: str) -> None:
    train_py(output, *SHORT, f"init_from={run}", *consent)


def average(run: Path, output: Path, *consent: str) -> None:
    average_runs([run], output / "average", [0.5])


ENTRIES = {
    "load": load,
    "eval": eval_py,
    "export": export_run,
    "resume": resume,
    "init_from": init_from,
    "average": average,
}
"""Called with the run folder, a folder to write to, and ``trust=true`` or nothing."""


def edit(path: Path, change: Edit) -> None:
    """Change a YAML file."""
    values = yaml.safe_load(path.read_text())
    change(values)
    path.write_text(yaml.safe_dump(values, sort_keys=False))


def no_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let eval.py load the encoder without data to score."""
    monkeypatch.setattr(
        evaluate,
        "open_suite",
        lambda cfg, text: Suite(lambda encoder, folder: ({"average": 0.0, "tasks": {}}, {})),
    )
