"""Encoders built from configurations and loaded from run folders."""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Iterable, Set
from pathlib import Path
from typing import Any, Literal

import torch
from omegaconf import DictConfig, OmegaConf, open_dict
from torch import Tensor, nn

from sts_lightning.config.build import build
from sts_lightning.config.check import check_target
from sts_lightning.config.trust import Trust
from sts_lightning.core.choices import Precision, TextEdit
from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.core.hardware import cpu_multiplies_bfloat16
from sts_lightning.models.encoder import SentenceEncoder, freeze
from sts_lightning.models.loading.backbone import check_finite
from sts_lightning.models.loading.hub import OWN_FILE
from sts_lightning.runs.folder import RunFolder

log = logging.getLogger(__name__)


def build_encoder(model: DictConfig, prompt: DictConfig, device: str | None = None) -> SentenceEncoder:
    """Build the encoder of a configuration; the prompt's pooling, if any, takes precedence over the model's.

    Args:
        model: Configuration group ``model``.
        prompt: Configuration group ``prompt``.
        device: Device that quantised weights are loaded to; by default a CUDA device if there is one.

    Raises:
        ConfigError: A setting is unknown or out of range, or the model cannot be loaded.
        CheckpointError: The model's files are broken.
    """
    # A model's own function need not have what it may leave out.
    optional = {"pooling", "query", "document"}
    arguments = {str(key): value for key, value in prompt.items() if key not in optional or value is not None}
    check_target("model", model)
    if device is not None and model.get("quantization", "none") != "none":
        arguments["device"] = device
    try:
        encoder: SentenceEncoder = build("model", model, SentenceEncoder, **arguments)
    except ConfigError as error:
        message = str(error).removeprefix("model: ").removeprefix("model.")
        name = message.partition(" ")[0]
        if name in prompt and (name not in model or prompt[name] is not None):  # it comes from the prompt
            raise ConfigError(f"prompt.{message}", key=f"prompt.{name}") from error
        raise
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


def load(source: str | Path, trust: Iterable[str] = (), trust_remote_code: bool = False) -> SentenceEncoder:
    """Load the encoder of a run or of a model, with its prompt and pooling, ready to encode.

    A folder is data: only this project's and peft's classes are built from it, and no code that comes with it
    or with a model is run, unless the arguments allow it.

    Example:
        >>> encoder = sts_lightning.load("runs/...")
        >>> vectors = encoder.encode(["A sentence.", "Another one."], normalize=True)
        >>> cosines = encoder.similarity(vectors)

    Args:
        source: Run folder, of which the last stage counts; or a model, as `from_pipeline` reads it: an
            export, a folder of sentence-transformers, transformers or peft, or an id on the model hub.
        trust: Dotted names of further classes, and keys of settings, that a run folder may ask for.
        trust_remote_code: Whether to run code that comes with the run's model, or with the model.

    Raises:
        CheckpointError: The folder is neither a run nor a model, or its files are broken.
        ConfigError: The model has a part without an equivalent here, or cannot be loaded.
        UntrustedError: The folder asks for more than the arguments allow; the message names it.
    """
    if _is_model(source):
        from sts_lightning.models.loading.pipeline import from_pipeline

        try:
            encoder = from_pipeline(str(source), trust_remote_code=trust_remote_code)
        except ValueError as error:  # all its settings are those of the model's files
            raise CheckpointError(f"{source}: {error}", key="model.name") from error
        return encoder
    folder = RunFolder(source).last_stage()
    cfg = folder.load_config(Trust.of(trust, trust_remote_code), encoder_only=True)
    encoder = load_from(folder, cfg)
    device = "cuda" if torch.cuda.is_available() else "cpu"  # where it is going to compute
    return encoder.set_precision(cfg.evaluation.get("precision") or usual_precision(encoder, device)).eval()


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


def is_run(source: str | Path) -> bool:
    """Return whether a source is the folder of a run, with or without stages."""
    return RunFolder(source).last_stage().config_file.is_file()


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


def load_from(
    run: RunFolder, cfg: DictConfig, device: str | None = None, step: int | None = None
) -> SentenceEncoder:
    """Load the encoder of a run from its configuration or a variant of it, in the model's precision.

    Args:
        run: Run folder.
        cfg: Configuration of the run, possibly with another quantisation.
        device: Device that quantised weights are loaded to.
        step: Step whose weights are loaded, one that the run kept; by default those of the best dev score.

    Raises:
        CheckpointError: The run's files are missing, broken or do not fit.
    """
    frozen = OmegaConf.select(cfg, "optim.freeze", default="none")  # lost: absent weights are errors
    encoder = freeze(build_encoder(cfg.model, cfg.prompt, device), frozen)
    which: Literal["best"] | int = "best" if step is None else step
    load_part(encoder, "encoder.", run.read_checkpoint(which), run.checkpoint(which))
    return set_evaluation_text(
        encoder, cfg.evaluation.get("text_edit", "none"), cfg.evaluation.get("max_length")
    )


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
    if encoder.text_edit not in ("none", text_edit):
        raise ConfigError(
            f"text_edit={text_edit} contradicts the pipeline of the model, which edits sentences.",
            key=key.replace("max_length", "text_edit"),
            hint=f"Set it to {encoder.text_edit}.",
        )
    encoder.text_edit = text_edit
    try:
        encoder.tokenizer.set_evaluation_length(max_length)
    except ValueError as error:
        raise ConfigError(str(error).replace("max_length", key, 1), key=key) from error
    return encoder


def load_best(run: RunFolder, encoder: SentenceEncoder) -> int:
    """Load the weights of the best dev score into an encoder.

    Args:
        run: Run folder.
        encoder: Encoder, all of whose trainable parameters must be in the checkpoint.

    Returns:
        Optimiser step of the weights.

    Raises:
        CheckpointError: The checkpoint is missing, broken or of another model.
    """
    checkpoint = run.read_checkpoint("best")
    load_part(encoder, "encoder.", checkpoint, run.checkpoint("best"))
    step: int = checkpoint["global_step"]
    return step


def load_part(part: nn.Module, prefix: str, checkpoint: dict[str, Any], path: Path) -> set[str]:
    """Load the weights of one part of a checkpoint, and return their names in the part.

    Args:
        part: Encoder or loss.
        prefix: Prefix of the names of its weights in the checkpoint.
        checkpoint: Contents of the checkpoint.
        path: File of the checkpoint, for the message.

    Raises:
        CheckpointError: Names or shapes differ, or a value is NaN or infinite.
    """
    weights = part_of(part, prefix, checkpoint, path)
    check_finite(weights.items(), str(path))
    part.load_state_dict(weights, strict=False)
    return set(weights)


def part_of(part: nn.Module, prefix: str, checkpoint: dict[str, Any], path: Path) -> dict[str, Tensor]:
    """Return the weights of one part of a checkpoint by their names in the part; see `load_part`."""
    weights = {
        name.removeprefix(prefix): value
        for name, value in checkpoint["state_dict"].items()
        if name.startswith(prefix)
    }
    names = {name for name, _ in (*part.named_parameters(), *part.named_buffers())}
    # state_dict() also holds the scales of quantised weights.
    expected = {name: value for name, value in part.state_dict().items() if name in names}
    frozen = {name for name, parameter in part.named_parameters() if not parameter.requires_grad}
    check_weights(expected, weights, str(path), required=expected.keys() - frozen)
    return weights


def check_weights(
    expected: dict[str, Tensor], loaded: dict[str, Tensor], source: str, required: Set[str] | None = None
) -> None:
    """Check that ``loaded`` has the names and shapes of ``expected``.

    Args:
        expected: Weights of the model.
        loaded: Weights of a checkpoint.
        source: Origin of the loaded weights, for the message.
        required: Names that must be present; by default all of ``expected``.

    Raises:
        CheckpointError: A name is absent or unknown, or a shape differs.
    """
    required = expected.keys() if required is None else required
    wrong = sorted((required - loaded.keys()) | (loaded.keys() - expected.keys()))
    wrong += [name for name in expected.keys() & loaded.keys() if expected[name].shape != loaded[name].shape]
    if wrong:
        raise CheckpointError(
            f"{source} does not belong to this model: {len(wrong)} of {len(expected)} weights differ in name "
            f"or shape (for example {wrong[0]})."
        )
