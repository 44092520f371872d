"""Fine-tune a sentence encoder: the script of `python train.py` and `sts-lightning train`."""

import contextlib
from pathlib import Path

import hydra
from omegaconf import DictConfig, OmegaConf

from sts_lightning.cli.hydra_app import job, run
from sts_lightning.config.schema import register_schemas
from sts_lightning.core.conf_folders import PACKAGED
from sts_lightning.core.errors import CheckpointError
from sts_lightning.core.signals import new_folder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.lock import is_first_process
from sts_lightning.workflows.command import train

register_schemas()


def _finished(folder: Path) -> bool:
    with contextlib.suppress(CheckpointError):  # a broken folder is named when the run would start in it
        return RunFolder(folder).finished
    return False


def _run_folder(parent: str) -> str:
    return new_folder(parent, _finished, claim=is_first_process())


OmegaConf.register_new_resolver("run_folder", _run_folder, use_cache=True)


@hydra.main(version_base="1.3", config_path=str(PACKAGED), config_name="train")
@job
def main(cfg: DictConfig) -> float:
    """Train and return the dev score of the selected weights."""
    return train(cfg)


def start() -> None:
    """Train as the command line says, and exit."""
    run(main, "train")


if __name__ == "__main__":
    start()
