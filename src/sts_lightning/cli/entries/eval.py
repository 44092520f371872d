"""Evaluate a model or a run: the script of `python eval.py` and `sts-lightning eval`."""

import hydra
from omegaconf import DictConfig, OmegaConf

from sts_lightning.cli.hydra_app import job, run
from sts_lightning.config.check import check_values
from sts_lightning.config.schema import register_schemas
from sts_lightning.core.conf_folders import PACKAGED
from sts_lightning.core.signals import timed_folder

register_schemas()
OmegaConf.register_new_resolver("timed_folder", timed_folder, use_cache=True)


@hydra.main(version_base="1.3", config_path=str(PACKAGED), config_name="eval")
@job
def main(cfg: DictConfig) -> float:
    """Evaluate and return the average score."""
    check_values(cfg)
    from sts_lightning.workflows.evaluate import evaluate  # torch is not needed for --help

    return evaluate(cfg)


def start() -> None:
    """Evaluate as the command line says, and exit."""
    run(main, "eval")


if __name__ == "__main__":
    start()
