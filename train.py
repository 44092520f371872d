"""Fine-tune a sentence encoder: `python train.py --help`."""

from sts_lightning.cli.entries.train import start

if __name__ == "__main__":
    start()
