"""Evaluate a model or a run on the STS tasks: `python eval.py --help`."""

from sts_lightning.cli.hydra_app import run

if __name__ == "__main__":
    run("eval")
