"""Comparison of an export, loaded again in the library that it is for, with the encoder of the run."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sts_lightning.core.choices import Role
from sts_lightning.core.errors import CheckpointError, UserError
from sts_lightning.models.compute.budget import is_out_of_memory
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.encoding import Base, EncodingConfig
from sts_lightning.models.loading.backbone import load_backbone
from sts_lightning.models.loading.own_file import BASE
from sts_lightning.models.same_vectors import PROBES, tolerance_of
from sts_lightning.models.text.template import BARE, SLOT, set_post_processor
from sts_lightning.runs.folder import RunFolder

log = logging.getLogger(__name__)

LONG, LONGEST = "The hills are green. ", 512
"""Words of a text that is truncated, and the length up to which there is one: a longer one takes minutes."""

Vectors = Callable[[Sequence[str], Role | None], np.ndarray]
"""Map from texts and their role to vectors, (N, D)."""

Reader = Callable[[Path, EncodingConfig, bool, torch.dtype], Vectors]
"""Map from a folder, its settings, whether code of the model may be run, and the run's dtype, to vectors."""


@dataclass(frozen=True)
class Format:
    """A format of exports.

    Attributes:
        library: Library that it is for.
        write: Writer of a folder, which returns the content of `OWN_FILE`; its encoder must not be used
            afterwards.
        read: How the library computes the vectors of a folder.
        bare: Whether it holds the transformer alone, without dense layers and subtracted templates.
    """

    library: str
    write: Callable[[SentenceEncoder, Path], dict[str, Any]]
    read: Reader
    bare: bool = False


class NotReadableHereError(Exception):
    """The export may be fine, but what it needs besides is not on this machine."""


@dataclass(frozen=True)
class Expected:
    """Vectors of the run, computed before anything is written.

    Attributes:
        texts: Texts by role; without prompts by role all have none.
        vectors: Their vectors, (N, D).
        tolerance: Largest difference of a value, as a fraction of the vector's length.
        dtype: dtype of the run's weights.
    """

    texts: Mapping[Role | None, Sequence[str]]
    vectors: Mapping[Role | None, np.ndarray]
    tolerance: float
    dtype: torch.dtype


def texts_of(run: RunFolder) -> tuple[list[str], list[str]]:
    """Return the texts of the first and of the second column that a run has stored, or `PROBES`."""
    with contextlib.suppress(CheckpointError):  # weights may come without results
        texts = run.metrics().details.get("texts") or {}
        if texts.get("first") and texts.get("second"):
            return texts["first"], texts["second"]
    log.info("built-in texts are compared, since the run has stored none")
    return PROBES, PROBES


def expect(
    encoder: SentenceEncoder, queries: Sequence[str], documents: Sequence[str], bare: bool
) -> Expected:
    """Compute the vectors that an export has to give.

    Args:
        encoder: Encoder of the run.
        queries: Texts of queries.
        documents: Texts of documents.
        bare: Whether the format holds the transformer alone.
    """
    rows = encoder.tokenizer
    queries, documents = rows.cut(queries), rows.cut(documents)
    long = []
    if rows.lengths.eval is not None and rows.lengths.eval <= LONGEST:
        long = [LONG * (rows.lengths.eval // 4 + 5)]
    texts: dict[Role | None, list[str]] = {None: [*queries, *documents, *long]}
    if rows.roles:
        texts |= {"query": [*queries, *long], "document": [*documents, *long]}
    config, told = encoder.config, encoder.tells_truncation
    encoder.tells_truncation = False
    if bare:
        encoder.config = rows.config = replace(encoder.config, projection="none", denoise_evaluation=False)
    vectors = {role: encoder.encode(some, prompt=role) for role, some in texts.items()}
    encoder.tells_truncation = told
    encoder.config = rows.config = config
    return Expected(texts, vectors, tolerance_of(encoder.plain_backbone).value, encoder.backbone.dtype)


def check(
    folder: Path,
    format_: Format,
    config: EncodingConfig,
    expected: Expected,
    trust_remote_code: bool = False,
) -> dict[str, Any] | None:
    """Load an export in the library that it is for, and compare its vectors with those of the run.

    Args:
        folder: Exported folder.
        format_: Its format.
        config: Settings of the encoder.
        expected: Vectors of the run.
        trust_remote_code: Whether code that comes with the model may be run.

    Returns:
        Library, version, number of texts and largest difference; None where the library cannot read it here,
        which a warning says.

    Raises:
        CheckpointError: The library cannot read the folder, or a vector is another one.
    """
    library = format_.library
    try:
        vectors = format_.read(folder, config, trust_remote_code, expected.dtype)
        found = {role: vectors(texts, role) for role, texts in expected.texts.items()}
    except (ImportError, NotReadableHereError) as error:
        log.warning("WARNING: the export was not compared with the run in %s: %s", library, error)
        return None
    except Exception as error:  # whatever another library raises
        if is_out_of_memory(error):
            raise
        raise CheckpointError(
            f"{library} cannot read the export ({type(error).__name__}: {error}); nothing was written.",
            hint="Use another --format, or the run itself with sts_lightning.load.",
        ) from error
    worst, text, role = 0.0, "", None
    for key, texts in expected.texts.items():
        ours, theirs = expected.vectors[key], found[key]
        if ours.shape != theirs.shape:
            raise _differs(library, f"have {theirs.shape[1]} values, not {ours.shape[1]}", texts[0], key)
        differences = np.abs(theirs - ours).max(axis=1) / np.linalg.norm(ours, axis=1).clip(min=1e-12)
        row = int(np.nan_to_num(differences, nan=np.inf).argmax())
        if not differences[row] <= worst:  # NaN too
            worst, text, role = float(differences[row]), texts[row], key
    if not worst <= expected.tolerance:
        limit = f"differ by {worst:.1e} of their length (at most {expected.tolerance:g} is rounding)"
        raise _differs(library, limit, text, role)
    count = len({text for texts in expected.texts.values() for text in texts})
    said = f"{library} {version(library)}"
    log.info(
        "%s: its vectors of %d texts are those of the run, up to %.1e of their length", said, count, worst
    )
    return {"library": library, "version": version(library), "texts": count, "difference": worst}


def _differs(library: str, how: str, text: str, role: Role | None) -> CheckpointError:
    shown = text if len(text) <= 60 else f"{text[:60]}..."
    return CheckpointError(
        f"the vectors of the export in {library} are not those of the run: they {how}, most for the "
        f"{role or 'text'} {shown!r}. Nothing was written.",
        hint="Use another --format, or the run itself with sts_lightning.load.",
    )


def in_sentence_transformers(
    folder: Path, config: EncodingConfig, trust_remote_code: bool, dtype: torch.dtype
) -> Vectors:
    """Read a folder as a user of sentence-transformers does, on the CPU; its dtype is that of the folder."""
    from sentence_transformers import SentenceTransformer

    own_code = any(folder.glob("*.py"))  # of this project, or of a model whose code has been run already
    model = SentenceTransformer(
        str(folder), device="cpu", trust_remote_code=trust_remote_code or own_code, local_files_only=True
    )
    encode: dict[Role | None, Any] = {
        None: model.encode,
        "query": model.encode_query,
        "document": model.encode_document,
    }

    def vectors(texts: Sequence[str], role: Role | None) -> np.ndarray:
        return np.asarray(encode[role](list(texts), show_progress_bar=False), dtype=np.float32)

    return vectors


def in_transformers(
    folder: Path, config: EncodingConfig, trust_remote_code: bool, dtype: torch.dtype
) -> Vectors:
    """Read a folder whose hidden states whoever uses it has to pool, here by the settings."""
    return _pooled(str(folder), folder, config, trust_remote_code, dtype)


def in_peft(folder: Path, config: EncodingConfig, trust_remote_code: bool, dtype: torch.dtype) -> Vectors:
    """Read an adapter on its base, which is not in the folder if it has a name."""
    from peft import PeftConfig

    adapter = PeftConfig.from_pretrained(str(folder))
    base = str(adapter.base_model_name_or_path)
    base = str(folder / BASE) if base == BASE else base
    base = f"{base}@{adapter.revision}" if adapter.revision else base
    try:
        return _pooled(base, folder, config, trust_remote_code, dtype, adapted=True)
    except UserError as error:  # the adapter itself may be fine
        raise NotReadableHereError(f"its base {base} cannot be loaded by transformers ({error})") from error


def _pooled(
    model: str,
    folder: Path,
    config: EncodingConfig,
    trust_remote_code: bool,
    dtype: torch.dtype,
    adapted: bool = False,
) -> Vectors:
    """Return the pooling by the settings of a model of transformers, and of the adapter in a folder on it."""
    from transformers import AutoTokenizer

    name: Any = str(dtype).removeprefix("torch.")
    backbone, _ = load_backbone(Base(model, name), trust_remote_code)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if (without := tokenizer.init_kwargs.pop(BARE, None)) is not None:  # the settings have the template too
        set_post_processor(tokenizer, without)
    # Neither dense layers nor subtracted templates are in the hidden states of a transformer.
    settings = config.as_json() | {"projection": "none", "denoise_evaluation": False}
    encoder = SentenceEncoder(backbone, tokenizer, **settings)
    if adapted:
        from peft import PeftModel

        encoder.backbone = PeftModel.from_pretrained(backbone, str(folder))
    encoder.tells_truncation = False
    return lambda texts, role: encoder.encode(texts, prompt=role)


def in_onnxruntime(
    folder: Path, config: EncodingConfig, trust_remote_code: bool, dtype: torch.dtype
) -> Vectors:
    """Read a graph and its tokenizer, without torch and transformers."""
    import onnxruntime
    from tokenizers import Tokenizer

    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    roles = config.roles

    def vectors(texts: Sequence[str], role: Role | None) -> np.ndarray:
        prefix = ""  # the tokenizer has the template, unless there are several
        if roles:
            prefix = roles.get(role or "", config.template or SLOT).removesuffix(SLOT)
        found = []
        for some in (texts[:1], texts[1:]):  # other numbers of rows than the graph was traced with
            rows = tokenizer.encode_batch([prefix + text for text in some])
            if rows:
                inputs = {
                    "input_ids": np.array([row.ids for row in rows]),
                    "attention_mask": np.array([row.attention_mask for row in rows]),
                }
                found.append(session.run(None, inputs)[0])
        return np.concatenate(found)

    return vectors
