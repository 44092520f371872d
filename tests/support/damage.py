"""What may be wrong with a run folder, with the check that finds it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sts_lightning.runs.folder import RunFolder
from tests.support.run_entries import edit


def change_json(run: RunFolder, change: Callable[[dict[str, Any]], object]) -> None:
    values = json.loads(run.metrics_file.read_text())
    change(values)
    run.metrics_file.write_text(json.dumps(values))


def change_weights(run: RunFolder, which: Any, change: Callable[[dict[str, Any]], object]) -> None:
    checkpoint = torch.load(run.checkpoint(which), weights_only=True)
    change(checkpoint)
    torch.save(checkpoint, run.checkpoint(which))


def change_predictions(run: RunFolder, change: Callable[[dict[str, Any]], object]) -> None:
    with np.load(run.predictions_file) as arrays:
        values = dict(arrays)
    change(values)
    np.savez(run.predictions_file, **values)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def first(checkpoint: dict[str, Any]) -> torch.Tensor:
    tensor: torch.Tensor = next(iter(checkpoint["state_dict"].values()))
    return tensor


def swap(values: dict[str, Any]) -> None:
    values["toy/cosine"][[0, 1]] = values["toy/cosine"][[1, 0]]


WEIGHT = "encoder.backbone.embeddings.word_embeddings.weight"

DAMAGE: dict[str, tuple[str, str, Callable[[RunFolder], object]]] = {
    "a link": ("config.yaml", "links to", lambda run: (run.path / "x").symlink_to("/etc/hostname")),
    "no configuration": ("config.yaml", "has no config.yaml", lambda run: run.config_file.unlink()),
    "half a configuration": ("config.yaml", "cannot be read", lambda run: run.config_file.write_text("a: [")),
    "code": (
        "config.yaml",
        "asks for code that is not this project's",
        lambda run: edit(run.config_file, lambda cfg: cfg["loss"].update(_target_="os.system")),
    ),
    "a text for a number": (
        "config.yaml",
        "optim.lr",
        lambda run: edit(run.config_file, lambda cfg: cfg["optim"].update(lr="fast")),
    ),
    "a choice": (
        "config.yaml",
        "optim.schedule=step",
        lambda run: edit(run.config_file, lambda cfg: cfg["optim"].update(schedule="step")),
    ),
    "not finished": ("metrics.json", "has not finished", lambda run: run.metrics_file.unlink()),
    "half of the results": ("metrics.json", "is broken", lambda run: cut(run.metrics_file)),
    "no number": (
        "metrics.json",
        "dev.pearson is nan",
        lambda run: change_json(run, lambda values: values["dev"].update(pearson=float("nan"))),
    ),
    "half of the weights": (
        "checkpoints/best.ckpt",
        "is not a readable checkpoint",
        lambda run: cut(run.checkpoint("best")),
    ),
    "no weights": (
        "checkpoints/best.ckpt",
        "does not exist",
        lambda run: run.checkpoint("best").unlink(),
    ),
    "a weight that is NaN": (
        "checkpoints/best.ckpt",
        "has 1 of ",
        lambda run: change_weights(run, "best", lambda values: first(values).view(-1)[3].fill_(torch.nan)),
    ),
    "a missing weight": (
        "checkpoints/best.ckpt",
        "1 of ",
        lambda run: change_weights(run, "best", lambda values: values["state_dict"].pop(WEIGHT)),
    ),
    "an unknown weight": (
        "checkpoints/best.ckpt",
        "for example more",
        lambda run: change_weights(
            run, "best", lambda values: values["state_dict"].update({"encoder.more": torch.zeros(1)})
        ),
    ),
    "another shape": (
        "checkpoints/best.ckpt",
        "backbone.embeddings.word_embeddings.weight",
        lambda run: change_weights(
            run, "best", lambda values: values["state_dict"].update({WEIGHT: torch.zeros(3, 3)})
        ),
    ),
    "no predictions": (
        "predictions.npz",
        "has no predictions.npz",
        lambda run: run.predictions_file.unlink(),
    ),
    "half of the predictions": ("predictions.npz", "is broken", lambda run: cut(run.predictions_file)),
    "predictions of another task": (
        "predictions.npz",
        "has predictions of other, the scores are of toy",
        lambda run: change_predictions(
            run,
            lambda values: [
                values.update({f"other/{k}": values.pop(f"toy/{k}")}) for k in ("cosine", "gold", "pairs")
            ],
        ),
    ),
    "fewer predictions": (
        "predictions.npz",
        "but computed again it is",
        lambda run: change_predictions(
            run, lambda values: values.update({k: v[1:] for k, v in values.items() if v.ndim})
        ),
    ),
    "two predictions swapped": (
        "predictions.npz",
        "but computed again it is",
        lambda run: change_predictions(run, swap),
    ),
    "a better score": (
        "predictions.npz",
        "test.tasks.toy.spearman is 99.0",
        lambda run: change_json(run, lambda values: values["test"]["tasks"]["toy"].update(spearman=99.0)),
    ),
    "a number too many": (
        "predictions.npz",
        "test.tasks.toy.score is 70.0, but computed again it is None",
        lambda run: change_json(run, lambda values: values["test"]["tasks"]["toy"].update(score=70.0)),
    ),
    "a missing number": (
        "predictions.npz",
        "test.tasks.toy.pearson is None, but computed again it is ",
        lambda run: change_json(run, lambda values: values["test"]["tasks"]["toy"].pop("pearson")),
    ),
    "a missing number of a subset": (
        "predictions.npz",
        "test.tasks.toy.subsets do not divide the 40 predictions",
        lambda run: change_json(
            run, lambda values: values["test"]["tasks"]["toy"]["subsets"]["a"].pop("pairs")
        ),
    ),
    "no subsets": (
        "predictions.npz",
        "test.tasks.toy.subsets do not divide the 40 predictions",
        lambda run: change_json(run, lambda values: values["test"]["tasks"]["toy"].pop("subsets")),
    ),
    "a subset of more pairs than there are": (
        "predictions.npz",
        "test.tasks.toy.subsets do not divide the 40 predictions",
        lambda run: change_json(
            run, lambda values: values["test"]["tasks"]["toy"]["subsets"]["a"].update(pairs=40)
        ),
    ),
    "no aggregate": (
        "predictions.npz",
        "aggregate must be one of",
        lambda run: change_json(run, lambda values: values["test"].pop("aggregate")),
    ),
    "a better average": (
        "predictions.npz",
        "test.average is 99.0",
        lambda run: change_json(run, lambda values: values["test"].update(average=99.0)),
    ),
}
