"""Run folders: what is in one, and how an encoder comes back out of it.

config.yaml          the composed configuration, resolved
metrics.json         scores, data counts, seed, versions, commit, time, memory; its presence means finished
history.csv          one row for each logged step
checkpoints/best.ckpt    trained parameters at the best dev score
checkpoints/last.ckpt    everything needed to go on
plots/*.png
train.log
"""

from __future__ import annotations

import contextlib
import json
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from sts_lightning.config import build, check_target
from sts_lightning.errors import CheckpointError
from sts_lightning.files import write_atomic
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.training.module import check_weights

PACKAGES = ("sts-lightning", "torch", "lightning", "transformers", "tokenizers", "datasets", "scipy", "numpy")


def run_name(run: Path) -> str:
    """The folder as the user would type it."""
    return str(run.relative_to(Path.cwd())) if run.is_relative_to(Path.cwd()) else str(run)


def remove_empty(folder: Path) -> None:
    """Remove a job folder in which nothing was written, and empty parents below the working directory."""
    here = Path.cwd()
    with contextlib.suppress(OSError):
        folder.rmdir()
        for parent in folder.resolve().parents:
            if parent == here or not parent.is_relative_to(here):
                break
            parent.rmdir()


def config_path(run: Path) -> Path:
    """The run's configuration file."""
    return run / "config.yaml"


def metrics_path(run: Path) -> Path:
    """The run's results."""
    return run / "metrics.json"


def best_checkpoint(run: Path) -> Path:
    """Trained parameters at the best dev score."""
    return run / "checkpoints" / "best.ckpt"


def last_checkpoint(run: Path) -> Path:
    """The state to go on from."""
    return run / "checkpoints" / "last.ckpt"


def save_config(run: Path, cfg: DictConfig) -> None:
    """Write the configuration with all interpolations resolved."""
    write_atomic(config_path(run), OmegaConf.to_yaml(cfg, resolve=True))


def load_config(run: Path) -> DictConfig:
    """The configuration of a run.

    Raises:
        CheckpointError: The folder is not a run folder, or its configuration is broken.
    """
    path = config_path(run)
    if not path.is_file():
        raise CheckpointError(f"{run} is not a run folder: it has no config.yaml.")
    try:
        cfg = OmegaConf.load(path)
    except (YAMLError, OmegaConfBaseException, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    absent = [
        key for key in ("model", "prompt", "evaluation") if not isinstance(cfg, DictConfig) or key not in cfg
    ]
    if absent:
        raise CheckpointError(f"{path} is not the configuration of a run: it has no {', '.join(absent)}.")
    assert isinstance(cfg, DictConfig)
    return cfg


def save_metrics(run: Path, metrics: dict[str, Any]) -> None:
    """Write metrics.json."""
    write_atomic(metrics_path(run), json.dumps(metrics, indent=2) + "\n")


def build_encoder(model: DictConfig, prompt: DictConfig) -> SentenceEncoder:
    """The encoder of a configuration; the prompt's pooling, if it has one, stands over the model's.

    Raises:
        UserError: The configuration has a setting that the model does not, or the model cannot be loaded.
    """
    arguments = {"template": prompt.template}
    if prompt.pooling is not None:
        arguments["pooling"] = prompt.pooling
    check_target("model", model)
    encoder: SentenceEncoder = build("model", model, **arguments)
    return encoder


def read_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint on the CPU.

    Raises:
        CheckpointError: It is missing or broken.
    """
    if not path.is_file():
        raise CheckpointError(f"{path} does not exist; the run was stopped before its first checkpoint.")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever its unpickler meets in a broken file
        raise CheckpointError(f"{path} is not a readable checkpoint ({type(error).__name__}).") from error
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise CheckpointError(f"{path} is not a checkpoint of a run: it has no state_dict.")
    return checkpoint


def load_best(run: Path, encoder: SentenceEncoder) -> int:
    """Put the weights of the best dev score into the encoder; returns their step.

    Raises:
        CheckpointError: The checkpoint is missing, broken or of another model.
    """
    path = best_checkpoint(run)
    checkpoint = read_checkpoint(path)
    prefix = "encoder."
    weights = {
        name.removeprefix(prefix): value
        for name, value in checkpoint["state_dict"].items()
        if name.startswith(prefix)
    }
    check_weights(encoder.state_dict(), weights, str(path))
    encoder.load_state_dict(weights)
    step: int = checkpoint["global_step"]
    return step


def load(run: str | Path) -> SentenceEncoder:
    """The encoder of a run, with its prompt, pooling and precision, ready to encode.

    Example:
        >>> encoder = sts_lightning.load("runs/...")
        >>> vectors = encoder.encode(["A sentence.", "Another one."])

    Raises:
        CheckpointError: The folder is not a run folder, or its files are broken.
    """
    run = Path(run)
    cfg = load_config(run)
    encoder = build_encoder(cfg.model, cfg.prompt)
    load_best(run, encoder)
    return encoder.set_precision(cfg.evaluation.precision).eval()


def environment() -> dict[str, Any]:
    """Versions and the commit of the code, for metrics.json."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {"versions": versions, "git_commit": _git_commit(), "platform": platform.platform()}


def _git_commit() -> str | None:
    """The commit that the code runs from, with ``+changes`` where files differ; None outside a checkout."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(here), *arguments], capture_output=True, text=True, check=False
            )
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    # A site-packages folder may lie inside some other project's checkout.
    if git("ls-files", "--error-unmatch", __file__) is None:
        return None
    commit = git("rev-parse", "HEAD")
    return f"{commit}+changes" if commit and git("status", "--porcelain", "--untracked-files=no") else commit
