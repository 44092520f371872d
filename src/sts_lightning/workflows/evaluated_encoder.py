"""The encoder that `eval.py` evaluates."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from hydra import compose
from omegaconf import DictConfig

from sts_lightning.conf_folders import files_of
from sts_lightning.config.compose import composing
from sts_lightning.config.constraints import check_config
from sts_lightning.config.keys import suggest
from sts_lightning.config.machine import choose_accelerator, cpu_multiplies_bfloat16
from sts_lightning.config.options import options
from sts_lightning.errors import CheckpointError, ConfigError, at_setting
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading import build_encoder, edit_and_cut, load, load_from, with_quantization
from sts_lightning.runs.folder import RunFolder


@dataclass(frozen=True)
class Source:
    """Where the weights come from.

    Attributes:
        run: The run that trained them; None: they are those of a model.
        config: Configuration of the run.
    """

    run: RunFolder | None = None
    config: DictConfig | None = None

    @classmethod
    def of(cls, cfg: DictConfig) -> Self:
        """Read the run of an evaluation, if it has one.

        Args:
            cfg: Configuration of the schema `EvalConfig`.

        Raises:
            UserError: The run's configuration cannot be read, or asks for more than the user allows.
        """
        if cfg.ckpt is None:
            return cls()
        with at_setting("ckpt"):
            run = RunFolder(cfg.ckpt).last_stage()
            return cls(run, run.load_config(options().trust, encoder_only=True))


def encoding_device(accelerator: str) -> str:
    """Return the device that encodes; of several GPUs the first visible one.

    Args:
        accelerator: See `choose_accelerator`.
    """
    found = choose_accelerator(accelerator, "accelerator")
    return found if found in ("cpu", "mps") else "cuda:0"


def load_named(source: str, trust: Sequence[str] = (), trust_remote_code: bool = False) -> SentenceEncoder:
    """Load the encoder that a user names on the command line.

    Args:
        source: What `load` reads, or a choice of the configuration group ``model``, unless there is a folder
            of that name.
        trust: See `load`.
        trust_remote_code: See `load`.

    Raises:
        UserError: There is nothing of that name, or it cannot be loaded.
    """
    if Path(source).exists() or "/" in source:
        return load(source, trust, trust_remote_code)
    if source not in (models := files_of("model")):
        raise CheckpointError(
            f"{source} is neither a folder here nor a choice of model=. {suggest(source, models)}".strip(),
            hint="Ids of the model hub have the form owner/name.",
        )
    with composing():
        cfg = compose("eval", [f"model={source}"])
    return load_evaluated(check_config(cfg), "cpu")


def load_evaluated(cfg: DictConfig, device: str, source: Source | None = None) -> SentenceEncoder:
    """Load the encoder on a device, in the precision and with the text settings of the evaluation.

    Args:
        cfg: Configuration of the schema `EvalConfig`.
        device: Name of the device.
        source: What `Source.of` found; by default it is read.

    Raises:
        UserError: Configuration, run folder or model cannot be used.
    """
    source = source or Source.of(cfg)
    if source.run is None or source.config is None:
        encoder, precision = _load_model(cfg, device), cfg.precision
    else:
        encoder = _load_run(cfg, source.run, source.config, device)
        precision = cfg.precision or source.config.evaluation.get("precision")
    encoder.to(device).eval()
    if precision == "auto":
        return use_fastest_precision(encoder)
    return encoder.set_precision(precision or encoder.precision)


def use_fastest_precision(encoder: SentenceEncoder) -> SentenceEncoder:
    """Convert an encoder, in place, to bfloat16 where its device multiplies it natively, else to float32.

    Quantised weights stay as they are.
    """
    if getattr(encoder.plain_backbone, "is_quantized", False):
        return encoder
    kind = encoder.device.type
    if kind == "cuda":
        native = torch.cuda.get_device_capability(encoder.device)[0] >= 8
    else:
        native = kind == "cpu" and cpu_multiplies_bfloat16()
    return encoder.set_precision("bf16-true" if native else "32-true")


def _load_model(cfg: DictConfig, device: str) -> SentenceEncoder:
    if cfg.step is not None:
        raise ConfigError("step names kept weights of a run; ckpt=... names the run.", key="step")
    model = with_quantization(cfg.model, cfg.quantization)
    if (adapter := model.get("adapter")) is not None:
        if not isinstance(adapter, DictConfig) or "_target_" not in adapter:
            raise ConfigError(
                f"model.adapter={adapter} has no _target_ among peft's configurations.",
                key="model.adapter",
                hint="Leave it out: an adapter that is not trained adds nothing.",
            )
        model.adapter = None  # not trained, it adds nothing
    encoder = build_encoder(model, cfg.prompt, device)
    return edit_and_cut(encoder, cfg.text_edit or encoder.text_edit, cfg.max_length, "max_length")


def _load_run(cfg: DictConfig, run: RunFolder, config: DictConfig, device: str) -> SentenceEncoder:
    config = copy.deepcopy(config)
    config.model = with_quantization(config.model, cfg.quantization)
    encoder = load_from(run, config, device, cfg.step)
    if cfg.text_edit is not None:
        encoder.text_edit = cfg.text_edit
    if cfg.max_length is not None:
        edit_and_cut(encoder, encoder.text_edit, cfg.max_length, "max_length")
    return encoder
