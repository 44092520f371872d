"""Fine-tune a sentence encoder: `python train.py --help`."""

from pathlib import Path

import hydra
from omegaconf import DictConfig

from sts_lightning.cli.hydra_app import job, run
from sts_lightning.config.schema import register_schemas

register_schemas()


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
@job
def main(cfg: DictConfig) -> float:
    """Train and return the dev score of the selected weights."""
    from sts_lightning.workflows.stages import train  # torch is not needed for --help

    return train(cfg)


if __name__ == "__main__":
    run(main, str(Path(__file__).parent / "conf"), "train")
