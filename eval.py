"""Evaluate a model or a run on the STS tasks: `python eval.py --help`."""

from pathlib import Path

import hydra
from omegaconf import DictConfig

from sts_lightning.cli.hydra_app import job, run
from sts_lightning.config.schema import register_schemas

register_schemas()


@hydra.main(version_base="1.3", config_path="conf", config_name="eval")
@job
def main(cfg: DictConfig) -> float:
    """Evaluate and return the average score."""
    from sts_lightning.workflows.evaluate import evaluate  # torch is not needed for --help

    return evaluate(cfg)


if __name__ == "__main__":
    run(main, str(Path(__file__).parent / "conf"), "eval")
