"""Evaluate a model or a run on the STS tasks: `python eval.py --help`."""

from sts_lightning.cli.entries.eval import start

if __name__ == "__main__":
    start()
