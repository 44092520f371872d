"""Export of an encoder as an ONNX graph from token ids to vectors, and a tokenizer with the template.

onnxruntime and tokenizers compute the vectors from the two files, without torch and transformers.
"""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sts_lightning.core.errors import ConfigError
from sts_lightning.export.merged import merged
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.folder import describe
from sts_lightning.models.same_vectors import PROBES
from sts_lightning.models.text.tokenizer_files import save_with_template

INPUTS = ("input_ids", "attention_mask")

LARGEST = 1_500_000_000
"""Bytes of weights up to which they are in the file of the graph, which protobuf limits to 2 GB."""


class Graph(nn.Module):
    """An encoder as a function of two tensors: pooled, projected and, as in the run, normalised vectors."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.mask_position = encoder.tokenizer.mask_position(encoder.tokenizer.template)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the vectors of rows that are padded on the right, (n, D)."""
        chunk = {"input_ids": input_ids, "attention_mask": attention_mask}
        if self.mask_position is not None:
            lengths = attention_mask.sum(dim=1, keepdim=True)
            at = self.mask_position
            chunk["mask_at"] = torch.full_like(lengths, at) if at >= 0 else lengths + at
        return self.encoder.project(self.encoder.embed_chunk(chunk))


def write_onnx(encoder: SentenceEncoder, folder: Path) -> dict[str, Any]:
    """Write an encoder as ``model.onnx`` and a tokenizer that puts the template around each sentence.

    A tokenizer holds one template: with prompts by role it has none, and whoever encodes prefixes each text.

    Args:
        encoder: Encoder; it must not be used afterwards, since its backbone is changed in place.
        folder: Output folder, empty.

    Raises:
        ConfigError: A library is missing, torch cannot export the model, a tokenizer cannot hold its
            template or the edit of sentences.
    """
    try:
        import onnx  # noqa: F401 # torch.onnx imports it and onnxscript late
        import onnxruntime  # noqa: F401 # needed to compare the vectors
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "--format onnx needs onnx, onnxscript and onnxruntime: pip install 'sts-lightning[onnx]'."
        ) from error
    further = {
        f"text_edit={encoder.config.text_edit}": encoder.config.text_edit != "none",
        "prompt.denoise_evaluation=true": encoder.config.subtracts,
    }
    if wrong := ", ".join(setting for setting, is_set in further.items() if is_set):
        raise ConfigError(f"a graph and a tokenizer cannot hold {wrong}; use sts_lightning.load.")
    try:
        save_with_template(encoder.tokenizer, folder)
    except ConfigError as error:
        raise ConfigError(f"{error}; use --format sentence-transformers.") from error
    encoder.backbone = merged(encoder)
    encoder.set_precision("32-true")
    _write_graph(encoder, folder / "model.onnx")
    return describe(encoder, "a graph")


def _write_graph(encoder: SentenceEncoder, path: Path) -> None:
    (rows,) = encoder.tokenizer.rows(PROBES, 10**9).chunks
    axes = {0: "batch", 1: "length"}
    size = sum(weight.nbytes for weight in encoder.parameters())
    for library in ("torch.onnx", "onnxscript", "onnx_ir"):  # they report each node that they change
        logging.getLogger(library).setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"), torch.no_grad():
            torch.onnx.export(
                Graph(encoder).eval(),
                tuple(rows[name] for name in INPUTS),
                path,
                dynamo=True,
                input_names=INPUTS,
                output_names=["sentence_embedding"],
                dynamic_shapes=(axes, axes),
                external_data=size > LARGEST,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        reason = str(error.__cause__ or error).strip().partition("\n")[0]
        raise ConfigError(
            f"torch.onnx cannot export {type(encoder.backbone).__name__} ({reason}); use --format "
            "sentence-transformers."
        ) from error
