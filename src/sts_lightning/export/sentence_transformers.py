"""Export of an encoder for the library sentence-transformers."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

from sts_lightning.core.errors import ConfigError
from sts_lightning.export.merged import merged, save_backbone
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.encoding import Base
from sts_lightning.models.loading.folder import (
    beyond_library,
    describe,
    is_static,
    save_text,
    save_weights,
    unsayable,
    write_json,
    write_modules,
)

log = logging.getLogger(__name__)


def write_sentence_transformers(encoder: SentenceEncoder, folder: Path) -> dict[str, Any]:
    """Write an encoder as a transformer, a pooling and, with a projection, dense modules.

    A template is part of the tokenizer, or else, if it ends with the sentence, the default prompt. Where
    those of the first two views differ and end so too, they are the prompts ``query`` and ``document``. Where
    it can be neither, or sentences are edited, the transformer is a `TemplateTransformer`. Its source file is
    copied into the folder, which thus loads without this project, but with ``trust_remote_code=True`` alone.
    Prompts by role are the prompts ``query`` and ``document``, and the template the default prompt then.

    Args:
        encoder: Encoder; it must not be used afterwards, since its backbone is changed in place.
        folder: Output folder, empty.

    Raises:
        ConfigError: The library has no equivalent of a setting of the encoder.
    """
    if further := beyond_library(encoder.config):
        wrong = ", ".join(f"{name}={value}" for name, value in further.items())
        raise ConfigError(f"sentence-transformers cannot represent {wrong}; use --format merged.")
    if is_static(encoder.plain_backbone):
        save_weights(encoder, folder)
    else:
        encoder.backbone = merged(encoder)
        encoder.base = Base()
        save_backbone(encoder.backbone, folder)
    prompts, reason = save_text(encoder, folder)
    reason = unsayable(encoder) or reason
    write_modules(encoder, folder, prompts, reason)
    if reason is not None:
        log.warning("the folder needs code, and so trust_remote_code=True: %s", reason)
        _add_code(encoder, folder, bool(prompts))
    return describe(encoder, reason)


def _add_code(encoder: SentenceEncoder, folder: Path, prompted: bool) -> None:
    """Copy the module with the template into a folder, and make it the first one."""
    from sts_lightning.export import template_transformer  # which imports the library

    rows, source = encoder.tokenizer, Path(template_transformer.__file__)
    # A row that ends with the sentence is truncated as a whole.
    row_length = None if (rows.template or "").partition("{sentence}")[2] else rows.row_tokens
    settings = {
        "max_seq_length": row_length,
        "template": "{sentence}" if prompted else rows.template or "{sentence}",
        "sentence_tokens": rows.lengths.eval if row_length is None else None,
        "edit": encoder.config.text_edit,
        "read_mask": encoder.config.pooling == "mask_token",
    }
    path = folder / "sentence_bert_config.json"
    write_json(path, json.loads(path.read_text("utf-8")) | settings)
    shutil.copy(source, folder / source.name)
    modules = json.loads((folder / "modules.json").read_text("utf-8"))
    modules[0]["type"] = f"{source.stem}.{template_transformer.TemplateTransformer.__name__}"
    write_json(folder / "modules.json", modules)
