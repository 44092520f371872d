"""Vectors on disk, so that a model encodes no sentence twice."""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

import sts_lightning
from sts_lightning.core.choices import Role
from sts_lightning.core.errors import DataError
from sts_lightning.core.files import parse_json, replacing
from sts_lightning.evaluation.encoding import Encoder
from sts_lightning.evaluation.statistics import require_finite
from sts_lightning.models.encoder import SentenceEncoder

log = logging.getLogger(__name__)

TOGETHER = 50_000
"""Number of sentences whose vectors are written together: so many are lost where a command is stopped."""


class CachedVectors:
    """An encoder that looks vectors up in a folder, and adds those of new sentences.

    The folder has files of each call that encoded something. Other processes may read and add at the same
    time. No file is ever changed; delete the folder to free the space. A file that cannot be written is a
    warning.

    Args:
        encoder: Encoder of the sentences that are not in the folder.
        folder: Folder of this encoder's vectors alone, named by its `fingerprint`; created with the first
            file.

    Attributes:
        looked_up: Number of vectors that came from the folder so far.
        encoded: Number of vectors that were encoded so far.

    Raises:
        DataError: A file in the folder cannot be read.
    """

    def __init__(self, encoder: Encoder, folder: Path) -> None:
        self.encoder, self.folder = encoder, folder
        self.looked_up = self.encoded = 0
        self._rows: dict[bytes, np.ndarray] = {}
        for path in sorted(folder.glob("*.safetensors")):
            self._read(path)

    def encode(self, sentences: Sequence[str], /, prompt: Role | None = None) -> np.ndarray:
        """Return vectors of shape (len(sentences), D) in float32.

        Args:
            sentences: Texts.
            prompt: Their role, of an encoder whose ``encode`` takes it too.

        Raises:
            TrainingError: A vector is NaN or infinite; nothing is kept then.
        """
        digests = [_digest(text, prompt) for text in sentences]
        missing = {
            digest: text for digest, text in zip(digests, sentences, strict=True) if digest not in self._rows
        }
        self.encoded += len(missing)
        self.looked_up += len(sentences) - len(missing)
        items = list(missing.items())
        for start in range(0, len(items), TOGETHER):
            self._add(dict(items[start : start + TOGETHER]), prompt)
        if not digests:
            return np.asarray(self.encoder.encode([]))
        return np.stack([self._rows[digest] for digest in digests])

    def _read(self, path: Path) -> None:
        try:
            with safe_open(path, framework="numpy") as file:
                digests, vectors = file.get_tensor("digests"), file.get_tensor("vectors")
        except SafetensorError as error:
            raise DataError(f"cannot be read ({error}); delete it.", path) from error
        self._rows.update((digest.tobytes(), vector) for digest, vector in zip(digests, vectors, strict=True))

    def _add(self, texts: dict[bytes, str], prompt: Role | None) -> None:
        encode: Callable[..., np.ndarray] = self.encoder.encode
        options = {} if prompt is None else {"prompt": prompt}
        vectors = require_finite(np.asarray(encode(list(texts.values()), **options)))
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        self._rows.update(zip(texts, vectors, strict=True))
        digests = np.frombuffer(b"".join(texts), dtype=np.uint8).reshape(len(texts), -1)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # A random name, since other processes may add to the folder at the same time.
            with replacing(self.folder / f"{uuid.uuid4().hex}.safetensors") as temporary:
                save_file({"digests": digests, "vectors": vectors}, temporary)
        except (OSError, SafetensorError) as error:
            log.warning("%s: %d vectors are not kept: %s", self.folder, len(texts), error)


def _digest(text: str, prompt: Role | None = None) -> bytes:
    return hashlib.sha256((text if prompt is None else f"{prompt}\0{text}").encode()).digest()


def fingerprint(encoder: SentenceEncoder) -> str:
    """Return a hash that differs if the vectors of `SentenceEncoder.encode` can differ by more than rounding.

    It covers weights and their precision, architecture, adapter, pooling and projection,
    tokenizer, template, prompts by role, edit and truncation of a sentence, the code of the model, and the
    versions of this package and of the libraries that compute them; not the name of the folder that they were
    loaded from.

    Args:
        encoder: The encoder, with its settings of evaluation.
    """
    rows = encoder.tokenizer
    adapters = getattr(encoder.backbone, "peft_config", {})
    rules: dict[str, Any] = parse_json(rows.tokenizer.backend_tokenizer.to_str())
    settings = {
        "versions": [sts_lightning.__version__, transformers.__version__, tokenizers.__version__],
        "code": _code(encoder),
        "architecture": _unnamed(encoder.plain_backbone.config.to_dict()),
        "adapters": {name: _unnamed(config.to_dict()) for name, config in adapters.items()},
        "encoding": encoder.config.as_json() | {"evaluation_length": rows.lengths.eval},
        # Without the truncation and padding of its last call.
        "tokenizer": {key: rule for key, rule in rules.items() if key not in ("truncation", "padding")},
    }
    # A set of names, as of the layers with an adapter, has another order in each process.
    text = json.dumps(settings, sort_keys=True, default=lambda x: sorted(x) if isinstance(x, set) else str(x))
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _code(encoder: SentenceEncoder) -> list[str]:
    """Return hashes of the files with the classes of an encoder's layers: a model may bring its own."""
    modules = {type(layer).__module__ for layer in encoder.modules()}
    files = {
        getattr(sys.modules.get(name), "__file__", None) for name in modules if not name.startswith("torch.")
    }
    return sorted(hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files if file is not None)


def _unnamed(config: Any) -> Any:
    """Return a configuration without the entries that say where a model comes from, or how it is trained."""
    left_out = {"_name_or_path", "name", "base_model_name_or_path", "revision", "inference_mode"}
    if not isinstance(config, dict):
        return config
    return {key: _unnamed(value) for key, value in config.items() if key not in left_out}
