"""A class of the sender's own in a run folder: each door is tried through each reader of run folders."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sts_lightning.core.errors import UntrustedError
from tests.support.run_changes import PLACES, Values, model_folder, of_that_folder
from tests.support.run_entries import ENTRIES, Bomb, edit

OF_ENCODER = [
    "model",
    "prompt",
    "prompt, deeper",
    "adapter",
    "list in the adapter",
    "adapter, deeper",
    "model.config",
]
CASES = [
    *((place, "load") for place in OF_ENCODER),
    *((place, "resume") for place in PLACES),
    *((place, "average") for place in ("model", "data")),
]


@pytest.mark.parametrize(("place", "entry"), CASES)
def test_a_class_of_the_senders(
    place: str, entry: str, run: Path, payload: str, marker: Path, tmp_path: Path
) -> None:
    edit(run / "config.yaml", lambda cfg: PLACES[place](cfg, {"_target_": payload}))
    if entry == "load":  # as of version 0.3, whose model is built once more
        shutil.rmtree(run / "model")
    with pytest.raises(UntrustedError, match=r"_target_'?: 'payload_\w+\.run'"):
        ENTRIES[entry](run, tmp_path / "out")
    assert not marker.exists()


@pytest.mark.parametrize("entry", ["load", "eval", "export", "init_from"])
def test_what_reads_the_model_builds_no_class(
    entry: str, run: Path, payload: str, marker: Path, tmp_path: Path
) -> None:
    def change(cfg: Values) -> None:
        for place in PLACES.values():
            place(cfg, {"_target_": payload})

    edit(run / "config.yaml", change)
    ENTRIES[entry](run, tmp_path / "out")
    assert not marker.exists()


def through_a_list(node: Values) -> Values:
    return {"_target_": "peft.LoraConfig", "target_modules": ["query", node]}


TRICKS: dict[str, Callable[[Path, Path], Values]] = {
    "torch.load": lambda marker, bomb: {"_target_": "torch.load", "f": str(bomb), "weights_only": False},
    "numpy.load": lambda marker, bomb: {"_target_": "numpy.load", "file": str(bomb), "allow_pickle": True},
    "a function of this project": lambda marker, bomb: through_a_list(
        {
            "_target_": "sts_lightning.core.files.write_atomic",
            "path": {"_target_": "pathlib.Path", "_args_": [str(marker)]},
            "content": "x",
        }
    ),
    "a module that ours imports": lambda marker, bomb: through_a_list(
        {"_target_": "sts_lightning.losses.mix.torch.load", "f": str(bomb), "weights_only": False}
    ),
    "a process through a module": lambda marker, bomb: through_a_list(
        {"_target_": "sts_lightning.sweep.job.subprocess.Popen", "args": ["touch", str(marker)]}
    ),
    "a class method of peft's": lambda marker, bomb: through_a_list(
        {"_target_": "peft.LoraConfig.from_pretrained", "pretrained_model_name_or_path": str(bomb.parent)}
    ),
    "a class at the wrong place": lambda marker, bomb: through_a_list(
        {"_target_": "sts_lightning.training.callbacks.ema.WeightEMA", "device": str(bomb.parent)}
    ),
}


@pytest.mark.parametrize("trick", list(TRICKS))
def test_names_that_reach_further_than_they_look(trick: str, run: Path, marker: Path, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.bin"
    bomb.write_bytes(pickle.dumps(Bomb(marker)))
    edit(run / "config.yaml", lambda cfg: cfg["model"].update(adapter=TRICKS[trick](marker, bomb)))
    with pytest.raises(UntrustedError, match="_target_"):
        ENTRIES["resume"](run, tmp_path / "out")
    assert not marker.exists()


def test_consent_that_a_folder_gives_itself_counts_for_nothing(
    run: Path, payload: str, marker: Path, tmp_path: Path
) -> None:
    model_folder(run / "model", marker)
    edit(run / "config.yaml", of_that_folder(run / "model", trust_remote_code=True))
    edit(run / "config.yaml", lambda cfg: cfg.update(trust=True, trust_remote_code=True))
    edit(run / "config.yaml", lambda cfg: PLACES["loss"](cfg, {"_target_": payload}))
    for entry in ("resume", "average"):
        with pytest.raises(UntrustedError):
            ENTRIES[entry](run, tmp_path / "out")
    assert not marker.exists()
