"""Encoders built from configurations and loaded from run folders."""

from __future__ import annotations

import copy
import logging
import re
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, open_dict

from sts_lightning.config.build import build
from sts_lightning.config.check import check_target
from sts_lightning.core.choices import Precision, Quantization, TextEdit
from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.core.hardware import cpu_multiplies_bfloat16
from sts_lightning.models.encoder import SentenceEncoder, freeze
from sts_lightning.models.encoding import Base
from sts_lightning.models.loading.backbone import Loaded, Loader, load_backbone
from sts_lightning.models.loading.checks import check_finite, check_weights
from sts_lightning.models.loading.folder import write_model
from sts_lightning.models.loading.hub import OWN_FILE
from sts_lightning.models.loading.pipeline import read_model, warn_of_pooling
from sts_lightning.runs.folder import Checkpoint, RunFolder, Which, missing_run_error

log = logging.getLogger(__name__)


def build_encoder(
    model: DictConfig, prompt: DictConfig, device: str | None = None, loader: Loader = load_backbone
) -> SentenceEncoder:
    """Build the encoder of a configuration; the prompt's pooling, if any, takes precedence over the model's.

    Args:
        model: Configuration group ``model``.
        prompt: Configuration group ``prompt``.
        device: See `load_backbone`.
        loader: Function that returns backbone and tokenizer.

    Raises:
        ConfigError: A setting is unknown or out of range, or the model cannot be loaded.
        CheckpointError: The model's files are broken.
    """
    # A model's own function need not have what it may leave out.
    optional = {"pooling", "query", "document"}
    arguments = {str(key): value for key, value in prompt.items() if key not in optional or value is not None}
    check_target("model", model)

    def to_device(base: Base, trust_remote_code: bool, own: str | None) -> Loaded:
        return loader(base, trust_remote_code, own or device)

    try:
        encoder: SentenceEncoder = build("model", model, SentenceEncoder, {"loader": to_device}, **arguments)
    except ConfigError as error:
        message = str(error).removeprefix("model: ").removeprefix("model.")
        name = message.partition(" ")[0]
        if name in prompt and (name not in model or prompt[name] is not None):  # it comes from the prompt
            raise ConfigError(f"prompt.{message}", key=f"prompt.{name}") from error
        raise
    alone = str(model._target_).endswith(".SentenceEncoder.from_pretrained")
    if alone and encoder.device.type != "meta" and encoder.tokenizer.template is None:
        warn_of_pooling(model.name, encoder.config.pooling)
    return encoder


def with_quantization(model: DictConfig, quantization: str | None) -> DictConfig:
    """Return a copy of a model's configuration with another quantisation; None keeps it.

    A model without that setting is rejected when it is built.
    """
    changed = copy.deepcopy(model)
    if quantization is not None and model.get("quantization") != quantization:
        with open_dict(changed):
            changed.quantization = quantization
    return changed


def load(
    source: str | Path,
    step: int | None = None,
    trust_remote_code: bool = False,
    quantization: Quantization | None = None,
    device: str | None = None,
) -> SentenceEncoder:
    """Load the encoder of a run or of a model, with its prompt and pooling, ready to encode.

    A folder is data: nothing in it is executed.

    Example:
        >>> encoder = sts_lightning.load("runs/...")
        >>> vectors = encoder.encode(["A sentence.", "Another one."], normalize=True)
        >>> cosines = encoder.similarity(vectors)

    Args:
        source: Run folder; or a model, as `from_pipeline` reads it: an
            export, a folder of sentence-transformers, transformers or peft, or an id on the model hub.
        step: Step of a run whose weights are loaded, one that the run kept; None for the selected ones.
        trust_remote_code: Whether to run code that comes with the model.
        quantization: Quantisation of the linear layers; None for that of the training.
        device: Device that the weights are loaded to; by default the host, and of quantised ones a CUDA
            device if there is one.

    Raises:
        CheckpointError: The folder is neither a finished run nor a model, or its files are broken.
        ConfigError: The model has a part without an equivalent here, or cannot be loaded.
    """
    name = str(source)
    if not _is_model(source):
        name = str(model_folder(RunFolder(source), "best" if step is None else step))
    elif step is not None:
        raise ConfigError("step names kept weights of a run.", key="step")
    try:
        encoder, precision = read_model(name, trust_remote_code, quantization, device)
    except ValueError as error:  # all its settings are those of the model's files
        raise CheckpointError(f"{source}: {error}", key="model.name") from error
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")  # where it is going to compute
    return encoder.set_precision(precision or usual_precision(encoder, place)).eval()


def model_folder(run: RunFolder, which: Which = "best") -> Path:
    """Return the model folder of a run; a finished run of version 0.3 gets one.

    Args:
        run: Run folder.
        which: ``best`` for the selected weights, ``final`` for those of the last step, or a step.

    Raises:
        CheckpointError: There is no run, or it has no such weights (yet).
    """
    folder, stored = run.model(which), run.checkpoint("last" if which == "final" else which)
    if (
        not folder.is_dir() and stored.is_file() and (run.finished or isinstance(which, int))
    ):  # of version 0.3
        _write_old_model(run, which)
    if not folder.is_dir():
        if not run.config_file.is_file():
            raise missing_run_error(run.path, run.config_file.name)
        raise CheckpointError(f"{folder} does not exist{run.why_missing(which)}.")
    return folder


def usual_precision(encoder: SentenceEncoder, device: str) -> Precision:
    """Return the precision of a run's weights; on a CPU float32 where it has no fast products of theirs.

    Half precision that is not native takes several times as long as float32. The weights stay rounded as they
    were in training.

    Args:
        encoder: Encoder of the run.
        device: Name of the device that computes.
    """
    own = encoder.precision
    if device != "cpu" or own == "32-true" or (own == "bf16-true" and cpu_multiplies_bfloat16()):
        return own
    log.info("machine: 32-true, since this CPU does not multiply the run's %s natively", own)
    return "32-true"


def _write_old_model(run: RunFolder, which: Which) -> None:
    """Write the model folder of weights that version 0.3 stored as a checkpoint.

    It is written once, to where runs have it now; the run's other files stay.

    Raises:
        CheckpointError: The configuration or the weights cannot be read, or the folder not be written.
    """
    stored: Checkpoint = "last" if which == "final" else which
    cfg, checkpoint = run.load_part(), run.read_checkpoint(stored)
    encoder = freeze(build_encoder(cfg.model, cfg.prompt), cfg.optim.freeze)
    parts: dict[str, dict[str, Any]] = {"encoder": {}, "loss": {}}
    for name, value in checkpoint["state_dict"].items():
        part, _, key = name.partition(".")
        parts.get(part, {})[key] = value
    trained = {name for name, weight in encoder.named_parameters() if weight.requires_grad}
    check_weights(encoder.state_dict(), parts["encoder"], str(run.checkpoint(stored)), trained)
    check_finite(parts["encoder"].items(), str(run.checkpoint(stored)))
    encoder.load_state_dict(parts["encoder"], strict=False)
    set_evaluation_text(encoder, cfg.evaluation.text_edit, cfg.evaluation.max_length)
    folder = run.checkpoints / "final" if which == "final" else run.model(which)
    try:
        write_model(encoder, folder, parts["loss"], checkpoint["global_step"], cfg.evaluation.precision)
    except OSError as error:
        raise CheckpointError(
            f"{folder} cannot be written ({error.strerror}): a run of 0.3 gets a model folder there.",
            hint="Copy the run to where you may write.",
        ) from error
    log.info("%s: the model of a run of 0.3, written once", folder)


def is_run(source: str | Path) -> bool:
    """Return whether a source is the folder of a run."""
    return RunFolder(source).config_file.is_file()


def _is_model(source: str | Path) -> bool:
    """Return whether a source is a model rather than a run: a folder with a model, or an id on the model hub.

    ``runs/typo`` has the form of an id; where there is a folder ``runs``, it is a run that is missing.
    """
    path = Path(source)
    if path.is_dir():
        return not is_run(path) and any(
            (path / name).is_file()
            for name in ("config.json", "modules.json", "adapter_config.json", OWN_FILE)
        )
    is_id = isinstance(source, str) and re.fullmatch(r"[\w.-]+/[\w.-]+(@[\w./-]+)?", source) is not None
    return is_id and not path.parent.is_dir()


def set_evaluation_text(
    encoder: SentenceEncoder, text_edit: TextEdit, max_length: int | None, key: str = "evaluation.max_length"
) -> SentenceEncoder:
    """Set what evaluation does with a sentence before it is embedded; return the encoder.

    Args:
        encoder: Encoder to change.
        text_edit: Edit of the sentence.
        max_length: Number of tokens after which it is truncated; None for the model's limit.
        key: Setting that ``max_length`` comes from, for the message.

    Raises:
        ConfigError: The model has no positions for so many tokens, or its pipeline has another edit.
    """
    known = encoder.config.text_edit
    if known not in ("none", text_edit):
        raise ConfigError(
            f"text_edit={text_edit} contradicts the pipeline of the model, which edits sentences.",
            key=key.replace("max_length", "text_edit"),
            hint=f"Set it to {known}.",
        )
    try:
        return encoder.set_evaluation(text_edit, max_length)
    except ValueError as error:
        raise ConfigError(str(error).replace("max_length", key, 1), key=key) from error
