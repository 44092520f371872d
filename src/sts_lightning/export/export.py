"""Export of a run as a folder for another library, and the export of its adapter for peft."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError

from sts_lightning.core.choices import ExportFormat
from sts_lightning.core.errors import CheckpointError, ConfigError, StorageError
from sts_lightning.core.files import check_new_folder, new_folder
from sts_lightning.export.check import (
    Format,
    check,
    expect,
    in_onnxruntime,
    in_peft,
    in_sentence_transformers,
    in_transformers,
    texts_of,
)
from sts_lightning.export.merged import write_merged
from sts_lightning.export.onnx import write_onnx
from sts_lightning.export.sentence_transformers import write_sentence_transformers
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.backbone import restrain_library
from sts_lightning.models.loading.folder import write_json, write_parts
from sts_lightning.models.loading.hub import OWN_FILE
from sts_lightning.models.loading.run import load
from sts_lightning.runs.folder import RunFolder

log = logging.getLogger(__name__)

BaseWeights = Literal["trained", "original"]
"""Weights that the adapter is merged into.

``trained``: those of training, dequantised, which gives the vectors of the run. ``original``: those before
quantisation, which the adapter was not trained with (the papers' evaluation).
"""


def export(
    run: Path,
    folder: Path,
    format_: ExportFormat,
    base: BaseWeights = "trained",
    trust_remote_code: bool = False,
    card: Callable[[Path], str] | None = None,
    device: str | None = None,
) -> None:
    """Export the encoder of a run; the folder appears complete or not at all.

    It is loaded again in the library that it is for, and its vectors of texts of the run are compared with
    those of the run (`check`).

    Every format includes the tokenizer, and ``sts_lightning.json`` with the template, the pooling and the
    other settings that determine a sentence's vector.

    Args:
        run: Run folder.
        folder: Output folder; must not exist.
        format_: Output format (see `ExportFormat`).
        base: Weights that an adapter is merged into (see `BaseWeights`).
        trust_remote_code: Whether to run code that comes with the run's model.
        card: Function that returns the model card of the folder, which is complete but for it; None to leave
            the card to the library.
        device: Device that computes the run's vectors and merges; by default see `load`.

    Raises:
        ConfigError: The folder exists, or the format cannot represent the encoder.
        CheckpointError: The run cannot be read, or has no adapter to export, or the export gives other
            vectors.
        StorageError: The weights cannot be written.
    """
    check_new_folder(folder)
    source = RunFolder(run)
    original = base == "original" and format_ != "adapter"
    encoder = load(
        source.path,
        trust_remote_code=trust_remote_code,
        quantization="none" if original else None,
        device=device,
    )
    if original and getattr(encoder.plain_backbone, "is_quantized", False):
        raise ConfigError(
            f"--base original: {run} has no name of a base whose weights are not quantised.",
            hint="Leave it out: the weights of the training are exported.",
        )
    if encoder.config.projection == "always" and format_ == "merged":
        log.warning(
            "--format merged writes the model without the dense layers on top (model.projection=always), so "
            "its vectors differ; --format sentence-transformers includes them.",
        )
    # Before the backbone is changed.
    expected = expect(encoder, *texts_of(source), FORMATS[format_].bare)
    restrain_library()
    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    with new_folder(folder) as inside:
        try:
            described = FORMATS[format_].write(encoder, inside)
        except SafetensorError as error:  # safetensors' error for a failed write, as on a full disk
            raise StorageError(f"{folder}: its weights cannot be written ({error}).") from error
        config = replace(encoder.config, evaluation_length=encoder.tokenizer.lengths.eval)
        del encoder  # its memory is that of the model that is loaded now
        described["checked"] = check(inside, FORMATS[format_], config, expected, trust_remote_code)
        write_json(inside / OWN_FILE, described)
        if card is not None:
            (inside / "README.md").write_text(card(inside), "utf-8")


def write_adapter(encoder: SentenceEncoder, folder: Path) -> dict[str, Any]:
    """Write the adapter of an encoder, its tokenizer and what is on top of it.

    Args:
        encoder: Encoder with an adapter.
        folder: Output folder, empty.

    Raises:
        CheckpointError: The encoder has no adapter.
    """
    if not hasattr(encoder.backbone, "peft_config"):
        raise CheckpointError("the run has no adapter; use --format merged, which writes all weights.")
    return write_parts(encoder, folder)


FORMATS: dict[ExportFormat, Format] = {
    "adapter": Format("peft", write_adapter, in_peft, bare=True),
    "merged": Format("transformers", write_merged, in_transformers, bare=True),
    "sentence-transformers": Format(
        "sentence-transformers", write_sentence_transformers, in_sentence_transformers
    ),
    "onnx": Format("onnxruntime", write_onnx, in_onnxruntime),
}
