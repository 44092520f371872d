"""The file of ours in a model folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from sts_lightning.core.choices import Precision
from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.core.files import as_type
from sts_lightning.models.encoding import Base, EncodingConfig
from sts_lightning.models.loading.checks import read_weights
from sts_lightning.models.loading.hub import OWN_FILE, SETTINGS, ModelFiles
from sts_lightning.models.text.template import MASK

TRAINING = "training.safetensors"
"""File of the weights that training has and evaluation does not: of a loss head, of a projection."""

BASE = "base"
"""Folder in a model folder with the base of an adapter that has no name."""


@dataclass(frozen=True)
class Own:
    """Content of `OWN_FILE`.

    Attributes:
        encoding: Settings of the encoder.
        base: Where the backbone's own weights come from.
        precision: Precision in which the weights are meant to be used; None for their own.
        step: Optimiser step of the weights; None if it is not known.
    """

    encoding: EncodingConfig
    base: Base = field(default_factory=Base)
    precision: Precision | None = None
    step: int | None = None


def read_own(files: ModelFiles) -> Own | None:
    """Read the file of ours in a model folder; None if there is none.

    Raises:
        CheckpointError: It is broken.
        ConfigError: It is an export of 0.3 that leaves out a part of the model.
    """
    content = files.json(OWN_FILE, dict)
    if not content:
        return None
    source = f"{files.name}: {OWN_FILE}"
    if "encoding" not in content:
        content = _of_0_3(content, files)
    try:
        base = as_type(
            {name: content["base"][name] for name in ("name", "dtype", "quantization", "config")}, Base
        )
        encoding = EncodingConfig.from_json(content["encoding"], source)
        precision = as_type(content.get("precision"), Precision | None)
        return Own(encoding, base, precision, content.get("step"))
    except (KeyError, TypeError, ValueError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise CheckpointError(f"{source}: {what}", key="model.name") from error


def _of_0_3(content: Mapping[str, Any], files: ModelFiles) -> dict[str, Any]:
    """Return the settings that 0.3 wrote, in which ``max_length`` was that of evaluation."""
    lost = [name for name in ("denoise_evaluation",) if content.get(name)]
    if content.get("projection") == "always" and not files.json("modules.json", list):
        lost.append("projection")
    if lost:
        raise ConfigError(
            f"{files.name} was exported by 0.3 from a run with {' and '.join(lost)}, which it does not hold.",
            key="model.name",
            hint="Export the run again.",
        )
    encoding = {name: value for name, value in content.items() if name not in ("quantization", "checked")}
    counted = [name for name in ("template", "query", "document") if content.get(name) is not None]
    length = encoding.pop("max_length", None)
    encoding |= {"max_length": None, "evaluation_length": None, "limit" if counted else "row_limit": length}
    if isinstance(template := encoding.get("template"), str):  # it has the mask token itself
        mask = files.json("tokenizer_config.json", dict).get("mask_token")
        token = mask.get("content") if isinstance(mask, dict) else mask
        encoding["template"] = template.replace(token, MASK) if token else template
    base = {"name": adapter_base(files), "quantization": content.get("quantization", "none")}
    return {"encoding": encoding, "base": base | {"dtype": "float32", "config": {}}}


def read_training(files: ModelFiles, prefix: str) -> dict[str, Tensor]:
    """Read the weights in `TRAINING` whose names begin with ``loss.`` or ``projector.``, and drop that.

    Raises:
        CheckpointError: The file is broken.
    """
    path = files.path(TRAINING)
    weights = {} if path is None else read_weights(path)
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def adapter_base(files: ModelFiles) -> str | None:
    """Return the name of the base that an adapter's settings state, with its commit."""
    settings = files.json(SETTINGS, dict)
    name, revision = settings.get("base_model_name_or_path"), settings.get("revision")
    return f"{name}@{revision}" if name and revision and not Path(name).is_dir() else name


def base_of(files: ModelFiles, own: Own | None) -> Base:
    """Return the base that a model folder names but does not hold.

    Raises:
        CheckpointError: The folder names none.
        ConfigError: It is an absolute path that does not exist.
    """
    base, inside = Base() if own is None else own.base, Path(files.source) / BASE
    name = base.name or adapter_base(files)
    if name in (None, BASE) and inside.is_dir():  # quantised weights there bring their quantisation
        return replace(base, name=str(inside), quantization="none")
    if not isinstance(name, str) or not name:
        raise CheckpointError(
            f"{files.name}: {SETTINGS} has no base_model_name_or_path, the model that the adapter is for.",
            key="model.name",
        )
    if Path(name).is_absolute() and not Path(name).is_dir():
        raise ConfigError(
            f"{files.name} needs its base {name}, which does not exist.",
            key="model.name",
            hint=f"If the base has moved, set its name in {SETTINGS} and {OWN_FILE}.",
        )
    return replace(base, name=name)
