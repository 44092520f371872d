"""The file of ours in a model folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sts_lightning.core.choices import Precision
from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.core.files import as_type
from sts_lightning.models.encoder import Base
from sts_lightning.models.encoding import EncodingConfig
from sts_lightning.models.loading.hub import OWN_FILE, SETTINGS, ModelFiles

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
        version: Version that wrote it; None for 0.3 and before.
    """

    encoding: EncodingConfig
    base: Base = field(default_factory=Base)
    precision: Precision | None = None
    step: int | None = None
    version: str | None = None


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
        return Own(encoding, base, content.get("precision"), content.get("step"), content.get("version"))
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
    base = {
        "name": None,
        "dtype": "float32",
        "quantization": content.get("quantization", "none"),
        "config": {},
    }
    if (adapter := files.json(SETTINGS, dict)) and (name := adapter.get("base_model_name_or_path")):
        revision = adapter.get("revision")
        base["name"] = f"{name}@{revision}" if revision and not Path(name).is_dir() else name
    return {"encoding": encoding, "base": base}
