"""What may be wrong with a run folder, with the check that finds it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from sts_lightning.runs.folder import RunFolder


def change_json(run: RunFolder, change: Callable[[dict[str, Any]], object]) -> None:
    values = json.loads(run.metrics_file.read_text())
    change(values)
    run.metrics_file.write_text(json.dumps(values))


def weights_of(run: RunFolder) -> Path:
    return run.model() / "model.safetensors"


def change_weights(run: RunFolder, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = load_file(weights_of(run))
    change(weights)
    save_file(weights, weights_of(run), {"format": "pt"})


def remove_weights(run: RunFolder) -> None:
    for folder in (run.model(), run.checkpoints):
        shutil.rmtree(folder)


def change_predictions(run: RunFolder, change: Callable[[dict[str, Any]], object]) -> None:
    with np.load(run.predictions_file) as arrays:
        values = dict(arrays)
    change(values)
    np.savez(run.predictions_file, **values)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def swap(values: dict[str, Any]) -> None:
    values["toy/cosine"][[0, 1]] = values["toy/cosine"][[1, 0]]


WEIGHT = "embeddings.word_embeddings.weight"

DAMAGE: dict[str, tuple[str, str, Callable[[RunFolder], object]]] = {
    "no configuration": ("config.yaml", "has no config.yaml", lambda run: run.config_file.unlink()),
    "half a configuration": ("config.yaml", "cannot be read", lambda run: run.config_file.write_text("a: [")),
    "not finished": ("metrics.json", "has not finished", lambda run: run.metrics_file.unlink()),
    "half of the results": ("metrics.json", "is broken", lambda run: cut(run.metrics_file)),
    "no number": (
        "metrics.json",
        "dev.pearson is nan",
        lambda run: change_json(run, lambda values: values["dev"].update(pearson=float("nan"))),
    ),
    "half of the weights": ("model", "cannot load", lambda run: cut(weights_of(run))),
    "no weights": (
        "model",
        "model does not exist",
        remove_weights,
    ),
    "a weight that is NaN": (
        "model",
        "has 1 of ",
        lambda run: change_weights(run, lambda weights: weights[WEIGHT].view(-1)[3].fill_(torch.nan)),
    ),
    "a missing weight": (
        "model",
        "lacks 1 weights of",
        lambda run: change_weights(run, lambda weights: weights.pop(WEIGHT)),
    ),
    "another shape": (
        "model",
        "cannot load",
        lambda run: change_weights(run, lambda weights: weights.update({WEIGHT: torch.zeros(3, 3)})),
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
        "test.tasks.toy.subsets do not divide the 39 predictions",
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
    "a better average": (
        "predictions.npz",
        "test.average is 99.0",
        lambda run: change_json(run, lambda values: values["test"].update(average=99.0)),
    ),
}
