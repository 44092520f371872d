"""The pipeline of a model: that of sentence-transformers, or of an export of this project."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, get_args

from sts_lightning.choices import TextEdit
from sts_lightning.errors import ConfigError, UserError
from sts_lightning.models.model_files import ModelFiles, ModelSettings
from sts_lightning.models.modules_json import read_modules
from sts_lightning.models.pipeline import Pipeline
from sts_lightning.models.pooling import Pooling

log = logging.getLogger(__name__)

OWN_FILE = "sts_lightning.json"
"""File of this project's exports with the settings that determine a vector."""


def read_pipeline(files: ModelFiles) -> Pipeline | None:
    """Read the pipeline of a model; None if its files describe none.

    Args:
        files: Files of the model.

    Raises:
        ConfigError: The pipeline has a part without an equivalent here.
        CheckpointError: A file is broken.
    """
    modules = files.json("modules.json")
    if modules is not None:
        return read_modules(files, modules)
    own = files.settings(OWN_FILE)
    return _of_export(files.name, own) if own else None


def warn_of_pipeline(name: str, pooling: Pooling, projection: str, template: str | None) -> None:
    """Log how an encoder that takes only the transformer of a model differs from the model's own pipeline.

    Args:
        name: Model.
        pooling: Pooling of the encoder.
        projection: Projection of the encoder.
        template: Template of the encoder.
    """
    try:
        pipeline = read_pipeline(ModelFiles(name))
    except UserError:  # one that cannot be read here; the transformer could
        return
    if pipeline is None:
        return
    prompt = pipeline.prompts.get(pipeline.default_prompt or "", "")
    differs = [
        text
        for text, is_different in {
            f"pooling {pipeline.pooling}, not {pooling}": template is None and pooling != pipeline.pooling,
            "trained dense layers on top": bool(pipeline.dense) and projection == "none",
            f"the prompt {prompt!r}": bool(prompt) and template is None,
        }.items()
        if is_different
    ]
    if differs:
        log.warning("%s: its own pipeline has %s; model=encoder takes it.", name, " and ".join(differs))


def _of_export(name: str, settings: ModelSettings) -> Pipeline:
    """Read the settings of a model or adapter that this project exported."""
    lost = {
        "model.projection=always": settings.take("projection", str) == "always",
        "prompt.denoise_evaluation=true": settings.take("denoise_evaluation", bool),
    }
    for setting, present in lost.items():
        if present:
            raise ConfigError(
                f"{name} was exported from a run with {setting}, which its format does not hold.",
                key="model.name",
                hint="Export the run with --format sentence-transformers, or use the run itself.",
            )
    template, length = settings.take("template", str), settings.take("max_length", int)
    layer = settings.take("layer", int, least=None)
    return Pipeline(
        source=settings.place,
        pooling=_choice(settings, "pooling", get_args(Pooling)) or "mean",
        row_tokens=None if template else length,
        sentence_tokens=length if template else None,
        template=template,
        text_edit=_choice(settings, "text_edit", get_args(TextEdit)) or "none",
        normalize=settings.take("normalize", bool) or False,
        layer=-1 if layer is None else layer,
        bidirectional_layers=settings.take("bidirectional_layers", int, least=0) or 0,
    )


def _choice(settings: ModelSettings, key: str, choices: Sequence[str]) -> Any:
    """Take a setting that is one of a few texts; None if it is absent.

    Raises:
        CheckpointError: It is none of them.
    """
    value = settings.take(key, str)
    if value is not None and value not in choices:
        raise settings.broken(f"{key} must be one of {', '.join(choices)}, got {value!r}")
    return value
