"""Script of `sts-lightning eval`, and of its further processes."""

from sts_lightning.cli.hydra_app import run

if __name__ == "__main__":
    run("eval")
