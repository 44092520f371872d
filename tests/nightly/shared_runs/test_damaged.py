"""Damaged run folders through every command that reads them: one message that names the file, or the run."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sts_lightning.cli.main import main
from sts_lightning.core.errors import UserError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from tests.support.run_entries import (
    SHORT,
    eval_py,
    export_run,
    init_from,
    load,
    no_suite,
    resume,
    train_py,
    write_finished,
)

PAIRS = "sentence1,sentence2,score\n" + "".join(f"a {n},b {n},{n % 5}\n" for n in range(40))

Command = Callable[[Path, Path], object]


def program(*arguments: str) -> Command:
    """A command, in whose arguments RUN, OTHER, PAIRS and OUTPUT stand for paths."""

    def call(run: Path, output: Path) -> None:
        names = {
            "RUN": run,
            "OTHER": run.parent / "other",
            "PAIRS": run.parent / "pairs.csv",
            "OUTPUT": output,
        }
        main([str(names.get(argument, argument)) for argument in arguments])

    return call


def final(run: Path, output: Path) -> None:
    train_py(output, *SHORT, f"init_from={run}", "trainer.init=final")


COMMANDS: dict[str, Command] = {
    "load": load,
    "eval": eval_py,
    "export": program("export", "RUN", "OUTPUT", "--format", "merged"),
    "export_run": export_run,
    "score": program("score", "RUN", "PAIRS"),
    "compare": program("runs", "compare", "RUN", "--to", "OTHER", "--resamples", "5"),
    "check": program("runs", "check", "RUN"),
    "runs": program("runs", "RUN"),
    "mean": program("runs", "mean", "RUN", "OTHER"),
    "resume": resume,
    "init_from": init_from,
    "final": final,
}

ENCODING = ("load", "eval", "export", "export_run", "score", "check", "init_from")
READ_BY: dict[str, tuple[str, ...]] = {
    "config.yaml": (*ENCODING, "runs", "resume", "final"),
    "metrics.json": ("export", "runs", "mean", "check"),
    "predictions.npz": ("compare", "export", "check"),
    "checkpoints/best.ckpt": ENCODING,
    "checkpoints/last.ckpt": ("final", "resume"),
    "stages.yaml": (*ENCODING[:-1], "runs", "compare", "mean"),
}
"""Commands that read each file."""


def text(content: str | bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content)


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def replaced(old: str, new: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(path.read_text().replace(old, new, 1))


def cut_before(key: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(path.read_text().partition(f"\n{key}")[0])


def tensors(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    def damage(path: Path) -> None:
        checkpoint = torch.load(path, weights_only=True)
        change(checkpoint)
        torch.save(checkpoint, path)

    return damage


def weight(checkpoint: dict[str, Any]) -> torch.Tensor:
    found: torch.Tensor = next(iter(checkpoint["state_dict"].values()))
    return found.view(-1)


EVERY = {"empty": text(""), "half": half, "noise": text(b"\x89PNG\r\n\x1a\n\0\xff")}
DAMAGES: dict[str, dict[str, Callable[[Path], object]]] = {
    "config.yaml": {
        **EVERY,
        "a list": text("- 1\n"),
        "twice": replaced("model:", "model: {}\nmodel:"),
        "no model": replaced("model:", "models:"),
        "cut": cut_before("evaluation:"),  # still YAML, as half of it is by chance
    },
    "metrics.json": {
        **EVERY,
        "nan": replaced("50.0", "NaN"),
        "twice": replaced("{", '{"dev": {"spearman": 99.0},'),
        "a text": replaced("50.0", '"50.0"'),
        "deep": text("[" * 100_000),
    },
    "predictions.npz": {**EVERY, "an array": lambda path: np.save(path.open("wb"), np.zeros(3))},
    "checkpoints/best.ckpt": {
        **EVERY,
        "nan": tensors(lambda checkpoint: weight(checkpoint)[3:4].fill_(torch.nan)),
        "infinite": tensors(lambda checkpoint: weight(checkpoint)[3:4].fill_(torch.inf)),
        "another shape": tensors(
            lambda checkpoint: checkpoint["state_dict"].update(
                {next(iter(checkpoint["state_dict"])): torch.zeros(3, 3)}
            )
        ),
    },
    "checkpoints/last.ckpt": {
        **EVERY,
        "no weights": tensors(lambda checkpoint: checkpoint.pop("state_dict")),
    },
    "stages.yaml": {
        "empty": EVERY["empty"],
        "noise": EVERY["noise"],
        "a list": text("- a\n"),
        "elsewhere": text("../a: {}\n"),
        "twice": text("a: {}\na: {}\n"),
    },
}

EACH_DAMAGE = {
    (file, damage): READ_BY[file][number % len(READ_BY[file])]
    for file, damages in DAMAGES.items()
    for number, damage in enumerate(damages)
}
EACH_COMMAND = {
    command: (file, next(iter(DAMAGES[file])))
    for file, commands in READ_BY.items()
    for command in commands
    if command not in EACH_DAMAGE.values()
}
CASES = [
    *((file, damage, command) for (file, damage), command in EACH_DAMAGE.items()),
    *((file, damage, command) for command, (file, damage) in EACH_COMMAND.items()),
]
"""Each damage through one command, and each command with one damage."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a finished run leaves, with all its files."""
    run = RunFolder(tmp_path_factory.mktemp("runs") / "run")
    write_finished(run.path)
    cosines, gold = np.linspace(-1, 1, 40), np.arange(40.0)
    np.savez(run.predictions_file, **{"toy/cosine": cosines, "toy/gold": gold})
    task = {"spearman": 100.0, "pearson": 100.0, "pairs": 40}
    dev = {"spearman": 50.0, "pearson": 50.0, "pairs": 40}
    run.save_metrics(RunMetrics({"average": 100.0, "tasks": {"toy": task}}, dev, {"best_step": 2}))
    run.history_file.write_text("step,dev/spearman\n0,40.0\n2,50.0\n")
    shutil.copytree(run.path, run.path.parent / "other")
    (run.path.parent / "pairs.csv").write_text(PAIRS)
    return run.path


@pytest.fixture
def run(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    no_suite(monkeypatch)
    monkeypatch.chdir(tmp_path)
    for name in ("run", "other"):
        shutil.copytree(whole.parent / name, tmp_path / name)
    shutil.copy(whole.parent / "pairs.csv", tmp_path)
    return tmp_path / "run"


@pytest.mark.parametrize(("file", "damage", "command"), CASES)
def test_a_damaged_file_is_named(
    file: str,
    damage: str,
    command: str,
    run: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    DAMAGES[file][damage](run / file)
    try:
        COMMANDS[command](run, run.parent / "output")
        left = ""
    except (UserError, SystemExit) as error:
        left = str(error)
    captured = capsys.readouterr()
    output = run.parent / "output"
    page = output.read_text() if output.is_file() else ""
    said = f"{captured.out}{captured.err}{caplog.text}{left}{page}"
    assert Path(file).name in said
    assert "Traceback" not in said
    assert len(left) < 1000
    assert left or command == "runs", "accepted"
    assert not output.is_dir() or command in ("resume", "init_from", "final")
