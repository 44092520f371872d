"""Fine-tune a sentence encoder: `python train.py --help`."""

from sts_lightning.cli.hydra_app import run

if __name__ == "__main__":
    run("train")
