"""Export of a run as a folder for another library, and the export of its adapter for peft."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, get_args

from peft import PeftModel
from safetensors import SafetensorError

from sts_lightning.config.trust import Trust
from sts_lightning.core.choices import ExportFormat, Role
from sts_lightning.core.errors import CheckpointError, StorageError
from sts_lightning.core.files import check_new_folder, new_folder
from sts_lightning.export.check import check, expect, texts_of
from sts_lightning.export.merged import save_tokenizer, write_merged
from sts_lightning.export.onnx import write_onnx
from sts_lightning.export.sentence_transformers import write_sentence_transformers
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.backbone import restrain_library
from sts_lightning.models.loading.hub import OWN_FILE
from sts_lightning.models.loading.run import load_from, with_quantization
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
    trust: Iterable[str] = (),
    trust_remote_code: bool = False,
    card: Callable[[Path], str] | None = None,
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
        trust: Further classes and settings that the run folder may ask for; see `sts_lightning.load`.
        trust_remote_code: Whether to run code that comes with the run's model.
        card: Function that returns the model card of the folder, which is complete but for it; None to leave
            the card to the library.

    Raises:
        ConfigError: The folder exists, or the format cannot represent the encoder.
        CheckpointError: The run cannot be read, or has no adapter to export, or the export gives other
            vectors.
        UntrustedError: The run asks for more than the arguments allow.
        StorageError: The weights cannot be written.
    """
    check_new_folder(folder)
    source = RunFolder(run).last_stage()
    cfg = source.load_config(Trust.of(trust, trust_remote_code), encoder_only=True)
    if base == "original" and format_ != "adapter":
        cfg.model = with_quantization(cfg.model, "none")
    encoder = load_from(source, cfg).eval()
    if encoder.projection == "always" and format_ in ("adapter", "merged"):
        log.warning(
            "--format %s writes the model without the dense layers on top (model.projection=always), so "
            "its vectors differ; --format sentence-transformers includes them.",
            format_,
        )
    # Before the backbone is changed.
    expected = expect(encoder, *texts_of(source, Trust.of(trust, trust_remote_code)), format_)
    restrain_library()
    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    with new_folder(folder) as inside:
        try:
            WRITERS[format_](encoder, inside, cfg.model.get("name", cfg.model["_target_"]))
        except SafetensorError as error:  # safetensors' error for a failed write, as on a full disk
            raise StorageError(f"{folder}: its weights cannot be written ({error}).") from error
        settings = settings_of(encoder)
        del encoder  # its memory is that of the model that is loaded now
        settings["checked"] = check(inside, format_, settings, expected, trust_remote_code)
        if format_ == "adapter":  # its vectors depend on the quantisation of the base
            settings["quantization"] = cfg.model.get("quantization", "none")
        (inside / OWN_FILE).write_text(json.dumps(settings, indent=2) + "\n", "utf-8")
        if card is not None:
            (inside / "README.md").write_text(card(inside), "utf-8")


def write_adapter(encoder: SentenceEncoder, folder: Path, name: str) -> None:
    """Write the adapter of an encoder, and its tokenizer.

    Args:
        encoder: Encoder with an adapter; it must not be used afterwards.
        folder: Output folder, empty.
        name: Hub id or local folder of the base model, optionally with ``@commit``.

    Raises:
        CheckpointError: The encoder has no adapter.
    """
    if not isinstance(encoder.backbone, PeftModel):
        raise CheckpointError("the run has no adapter; use --format merged, which writes all weights.")
    for config in encoder.backbone.peft_config.values():
        config.base_model_name_or_path, _, revision = name.partition("@")
        config.revision = revision or None
        config.inference_mode = True
    encoder.backbone.save_pretrained(str(folder), save_embedding_layers=False)
    save_tokenizer(encoder, folder)


WRITERS = {
    "adapter": write_adapter,
    "merged": write_merged,
    "sentence-transformers": write_sentence_transformers,
    "onnx": write_onnx,
}


def settings_of(encoder: SentenceEncoder) -> dict[str, Any]:
    """Return the settings of an encoder that a folder of weights lacks, for `OWN_FILE`."""
    return {
        "pooling": encoder.pooling,
        "template": encoder.tokenizer.template,
        **{role: encoder.tokenizer.prefix_of(role) for role in get_args(Role)},
        "max_length": encoder.tokenizer.evaluation_length,
        "layer": encoder.layer,
        "bidirectional_layers": encoder.bidirectional_layers,
        "projection": encoder.projection,
        "normalize": encoder.normalize,
        "truncate_dim": encoder.truncate_dim,
        "denoise_evaluation": encoder.denoise_evaluation,
        "text_edit": encoder.text_edit,
    }
