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
from safetensors.torch import load_file, save_file

import sts_lightning
from sts_lightning.cli.main import main
from sts_lightning.core.errors import CheckpointError, UserError
from sts_lightning.models.loading.folder import write_model
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.testing.tiny_bert import tiny_bert
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


COMMANDS: dict[str, Command] = {
    "load": load,
    "eval": eval_py,
    "export": program("export", "RUN", "OUTPUT", "--format", "merged"),
    "export_run": export_run,
    "similarity": program("similarity", "RUN", "PAIRS"),
    "compare": program("runs", "compare", "RUN", "--to", "OTHER", "--resamples", "5"),
    "check": program("runs", "check", "RUN"),
    "runs": program("runs", "list", "RUN"),
    "mean": program("runs", "mean", "RUN", "OTHER"),
    "resume": resume,
    "init_from": init_from,
}

ENCODING = ("load", "eval", "export", "export_run", "similarity", "check", "init_from")
READ_BY: dict[str, tuple[str, ...]] = {
    "config.yaml": ("runs", "eval", "export", "check", "init_from", "resume", "resume"),
    "model/model.safetensors": ENCODING,
    "model/config.json": ENCODING[1:],
    "model/tokenizer.json": ENCODING[2:],
    "model/modules.json": ENCODING[3:],
    "model/sts_lightning.json": ENCODING,
    "metrics.json": ("export", "runs", "mean", "check"),
    "predictions.npz": ("compare", "export", "check"),
    "checkpoints/best.ckpt": ENCODING,  # of a run of version 0.3
    "checkpoints/last.ckpt": ("resume",),
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


Tensors = dict[str, Any]


def tensors(change: Callable[[Tensors], object]) -> Callable[[Path], object]:
    """A change of the tensors, or of what else is in a checkpoint."""

    def damage(path: Path) -> None:
        if path.suffix == ".safetensors":
            weights = load_file(path)
            change({"state_dict": weights})
            save_file(weights, path, {"format": "pt"})
        else:
            checkpoint = torch.load(path, weights_only=True)
            change(checkpoint)
            torch.save(checkpoint, path)

    return damage


def weight(content: Tensors) -> torch.Tensor:
    found: torch.Tensor = next(iter(content["state_dict"].values()))
    return found.view(-1)


def reshaped(content: Tensors) -> None:
    content["state_dict"][next(iter(content["state_dict"]))] = torch.zeros(3, 3)


EVERY = {"empty": text(""), "half": half, "noise": text(b"\x89PNG\r\n\x1a\n\0\xff")}
WEIGHTS = {
    **EVERY,
    "nan": tensors(lambda content: weight(content)[3:4].fill_(torch.nan)),
    "infinite": tensors(lambda content: weight(content)[3:4].fill_(torch.inf)),
    "another shape": tensors(reshaped),
    "one fewer": tensors(lambda content: content["state_dict"].popitem()),
}
JSON = {**EVERY, "a text": text('"x"')}
DAMAGES: dict[str, dict[str, Callable[[Path], object]]] = {
    "config.yaml": {
        **EVERY,
        "a list": text("- 1\n"),
        "twice": replaced("model:", "model: {}\nmodel:"),
        "no model": replaced("model:", "models:"),
        "cut": cut_before("evaluation:"),  # still YAML, as half of it would be by chance
        "half": lambda path: path.write_text(path.read_text().partition("betas:")[0] + "betas: [0.9"),
    },
    "model/model.safetensors": {**WEIGHTS, "absent": Path.unlink},
    "model/config.json": {**JSON, "absent": Path.unlink, "a type": replaced('"bert"', '"bort"')},
    "model/tokenizer.json": {**JSON, "absent": Path.unlink},
    "model/modules.json": {**JSON, "no path": replaced('"path"', '"paths"')},
    "model/sts_lightning.json": {
        **JSON,
        "a value": replaced('"mean"', '"median"'),
        "a setting": replaced('"pooling"', '"pools"'),
        "no base": replaced('"base"', '"bases"'),
        "a precision": replaced('"precision": null', '"precision": "x"'),
    },
    "metrics.json": {
        **EVERY,
        "nan": replaced("50.0", "NaN"),
        "twice": replaced("{", '{"dev": {"spearman": 99.0},'),
        "a text": replaced("50.0", '"50.0"'),
        "deep": text("[" * 100_000),
    },
    "predictions.npz": {**EVERY, "an array": lambda path: np.save(path.open("wb"), np.zeros(3))},
    "checkpoints/best.ckpt": WEIGHTS,
    "checkpoints/last.ckpt": {
        **EVERY,
        "no weights": tensors(lambda content: content.pop("state_dict")),
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
    if file == "checkpoints/best.ckpt":
        shutil.rmtree(run / "model")
    try:
        COMMANDS[command](run, run.parent / "output")
        left = ""
    except (UserError, SystemExit) as error:
        left = str(error)
    captured = capsys.readouterr()
    output = run.parent / "output"
    page = output.read_text() if output.is_file() else ""
    said = f"{captured.out}{captured.err}{caplog.text}{left}{page}"
    library = file.startswith("model/") and f"{run / 'model'}" in said  # it does not say which file it was
    assert Path(file).name in said or library
    assert "Traceback" not in said
    assert len(left) < 1000
    assert left or command == "runs", "accepted"
    assert not output.is_dir() or command in ("resume", "init_from")


@pytest.mark.usefixtures("keeps_state")
def test_a_damaged_selection_of_a_resumed_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_py(run, *SHORT)
    (run / "metrics.json").unlink()
    shutil.rmtree(run / "model")
    half(run / "checkpoints" / "best.ckpt")
    with pytest.raises(CheckpointError, match=r"best\.ckpt"):
        resume(run, tmp_path / "out")


def test_dense_layers_that_are_gone(tmp_path: Path) -> None:
    """New ones in their place would be random."""
    write_model(tiny_bert(projection="always"), tmp_path / "model")
    (tmp_path / "model" / "modules.json").unlink()
    with pytest.raises(CheckpointError, match=r"modules\.json"):
        sts_lightning.load(tmp_path / "model")
