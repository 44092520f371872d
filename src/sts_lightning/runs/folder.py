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
import copy
import json
import logging
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import torch
from omegaconf import DictConfig, OmegaConf, open_dict
from torch import nn

from sts_lightning.config.build import build, check_target
from sts_lightning.config.trust import NOTHING, Trust, read_config
from sts_lightning.errors import CheckpointError
from sts_lightning.files import write_atomic
from sts_lightning.losses.base import Loss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.runs.state import state_of
from sts_lightning.training.module import Frozen, check_weights

log = logging.getLogger(__name__)

PACKAGES = (
    "sts-lightning",
    "torch",
    "lightning",
    "transformers",
    "tokenizers",
    "peft",
    "bitsandbytes",
    "datasets",
    "scipy",
    "numpy",
)


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


def load_config(run: Path, trust: Trust = NOTHING) -> DictConfig:
    """The configuration of a run.

    Args:
        run: The run folder.
        trust: The user's word on what it may ask for.

    Raises:
        CheckpointError: The folder is not a run folder, or its configuration is broken.
        UntrustedError: It asks for more than the user allows.
    """
    path = config_path(run)
    if not path.is_file():
        raise CheckpointError(f"{run} is not a run folder: it has no config.yaml.")
    cfg = read_config(path, trust)
    absent = [key for key in ("model", "prompt", "evaluation") if not isinstance(cfg.get(key), DictConfig)]
    if absent:
        raise CheckpointError(f"{path} is not the configuration of a run: it has no {', '.join(absent)}.")
    return cfg


def save_metrics(run: Path, metrics: dict[str, Any]) -> None:
    """Write metrics.json."""
    write_atomic(metrics_path(run), json.dumps(metrics, indent=2) + "\n")


def build_encoder(model: DictConfig, prompt: DictConfig, device: str | None = None) -> SentenceEncoder:
    """Build the encoder of a configuration; the prompt's pooling, if any, takes precedence over the model's.

    Args:
        model: The group ``model``.
        prompt: The group ``prompt``.
        device: Where quantised weights are loaded to; by default a CUDA device if there is one.

    Raises:
        UserError: The configuration has a setting that the model does not, or the model cannot be loaded.
    """
    arguments = {str(key): value for key, value in prompt.items() if key != "pooling"}
    if prompt.pooling is not None:
        arguments["pooling"] = prompt.pooling
    check_target("model", model)
    if device is not None and model.get("quantization", "none") != "none":
        arguments["device"] = device
    encoder: SentenceEncoder = build("model", model, **arguments)
    return encoder


def with_quantization(model: DictConfig, quantization: str | None) -> DictConfig:
    """A copy of a model's configuration, quantised as asked for; a model that cannot says so when built."""
    changed = copy.deepcopy(model)
    if quantization is not None and model.get("quantization") != quantization:
        with open_dict(changed):
            changed.quantization = quantization
    return changed


def read_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint on the CPU.

    Raises:
        CheckpointError: It is missing or broken.
    """
    if not path.is_file():
        raise CheckpointError(f"{path} does not exist{_why_missing(path)}.")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever its unpickler meets in a broken file
        raise CheckpointError(f"{path} is not a readable checkpoint ({type(error).__name__}).") from error
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise CheckpointError(f"{path} is not a checkpoint of a run: it has no state_dict.")
    return checkpoint


def _why_missing(path: Path) -> str:
    run = path.parent.parent
    name = run_name(run)
    return {
        "new": "",
        "started": f": the run was stopped before its first checkpoint; start it again with resume={name}",
        "cut": ": the run was stopped before its first dev evaluation, or the file was removed; "
        f"resume={name} resumes the run",
        "finished": ": the run has finished, and the file was removed since",
    }[state_of(run)]


def load_best(run: Path, encoder: SentenceEncoder) -> int:
    """Put the weights of the best dev score into the encoder; returns their step.

    Args:
        run: The run folder.
        encoder: Which of its weights train tells what the checkpoint must hold.

    Raises:
        CheckpointError: The checkpoint is missing, broken or of another model.
    """
    path = best_checkpoint(run)
    checkpoint = read_checkpoint(path)
    _load_part(encoder, "encoder.", checkpoint, path)
    step: int = checkpoint["global_step"]
    return step


def start_from(
    run: Path,
    which: Literal["best", "final"],
    encoder: SentenceEncoder,
    loss: Loss,
    model: DictConfig,
    trust: Trust = NOTHING,
) -> set[str]:
    """Take over the weights of an earlier run: the encoder's, and those of the loss head if it has the same.

    Args:
        run: The earlier run's folder.
        which: The weights of its best dev score, or those at its end.
        encoder: Takes the weights.
        loss: A head of the earlier run's shape takes the head's weights; another one starts anew.
        model: The model's configuration, which must name the same model as that of the run.
        trust: The user's word on what the earlier run's folder may ask for.

    Returns:
        Names of the encoder's weights that were taken over.

    Raises:
        CheckpointError: The folder is no run folder, has another model, or its files are broken.
    """
    earlier = load_config(run, trust)
    for key in ("_target_", "name"):
        if earlier.model.get(key) != model.get(key):
            raise CheckpointError(
                f"init_from={run} was trained from model {earlier.model.get(key)}, not {model.get(key)}; "
                "choose the same model."
            )
    if _shape_of(earlier.model) != _shape_of(model):
        raise CheckpointError(
            f"init_from={run} was trained with another adapter ({_shape_of(earlier.model) or 'none'}), not "
            f"{_shape_of(model) or 'none'}; leave model.adapter as it was."
        )
    path = best_checkpoint(run) if which == "best" else last_checkpoint(run)
    checkpoint = read_checkpoint(path)
    trains = {parameter: parameter.requires_grad for parameter in encoder.parameters()}
    freeze(encoder, earlier.get("freeze", "none"))  # what the earlier run did not train may be absent
    names = _load_part(encoder, "encoder.", checkpoint, path)
    for parameter, requires_grad in trains.items():
        parameter.requires_grad_(requires_grad)
    heads = {name for name in checkpoint["state_dict"] if name.startswith("loss.")}
    same_head = heads == {f"loss.{name}" for name in loss.state_dict()}
    if heads and same_head:
        _load_part(loss, "loss.", checkpoint, path)
    log.info(
        "starting from %s (%s, step %d): %d weights of the encoder, %s",
        run_name(run),
        which,
        checkpoint["global_step"],
        len(names),
        "and the head" if heads and same_head else "no head",
    )
    return names


def _shape_of(model: DictConfig) -> dict[str, Any]:
    """What of a model's adapter decides which weights there are."""
    adapter = model.get("adapter") or {}
    return {key: value for key, value in adapter.items() if key not in ("lora_alpha", "lora_dropout")}


def _load_part(part: nn.Module, prefix: str, checkpoint: dict[str, Any], path: Path) -> set[str]:
    weights = {
        name.removeprefix(prefix): value
        for name, value in checkpoint["state_dict"].items()
        if name.startswith(prefix)
    }
    names = {name for name, _ in (*part.named_parameters(), *part.named_buffers())}
    own = {
        name: value for name, value in part.state_dict().items() if name in names
    }  # no quantisation scales
    standing = {name for name, parameter in part.named_parameters() if not parameter.requires_grad}
    check_weights(own, weights, str(path), required=own.keys() - standing)
    part.load_state_dict(weights, strict=False)
    return set(weights)


def freeze(encoder: SentenceEncoder, frozen: Frozen) -> SentenceEncoder:
    """Say which weights of the encoder train."""
    if frozen != "none":
        encoder.requires_grad_(False)
    return encoder


def load(run: str | Path, trust: Iterable[str] = (), trust_remote_code: bool = False) -> SentenceEncoder:
    """The encoder of a run, with its prompt, pooling and precision, ready to encode.

    A run folder is data: only this project's and peft's classes are built from it, and no code that comes
    with a model runs, unless the arguments allow it.

    Example:
        >>> encoder = sts_lightning.load("runs/...")
        >>> vectors = encoder.encode(["A sentence.", "Another one."])

    Args:
        run: The run folder.
        trust: Dotted names of further classes, and keys of settings, that the folder may ask for.
        trust_remote_code: Whether code that comes with the run's model may run.

    Raises:
        CheckpointError: The folder is not a run folder, or its files are broken.
        UntrustedError: It asks for more than the arguments allow; the message names it.
    """
    run = Path(run)
    cfg = load_config(run, Trust.of(trust, trust_remote_code))
    encoder = load_from(run, cfg)
    return encoder.set_precision(cfg.evaluation.precision or encoder.precision).eval()


def load_from(run: Path, cfg: DictConfig, device: str | None = None) -> SentenceEncoder:
    """The encoder of a run, built by its configuration or a variant of that, in the model's precision.

    Args:
        run: The run folder.
        cfg: The run's configuration, perhaps with its base quantised otherwise.
        device: See `build_encoder`.

    Raises:
        CheckpointError: The run's files are broken or do not fit.
    """
    encoder = freeze(build_encoder(cfg.model, cfg.prompt, device), cfg.get("freeze", "none"))
    load_best(run, encoder)
    encoder.text_edit = cfg.evaluation.get("text_edit", "none")
    return encoder


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
