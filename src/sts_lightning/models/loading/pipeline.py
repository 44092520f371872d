"""Encoders with the pipeline of a model: pooling, dense layers, normalisation, prompt, length."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from pydantic import BaseModel, Field, ValidationError
from torch import nn
from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerBase

from sts_lightning.core.choices import Quantization, Role, TextEdit
from sts_lightning.core.errors import CheckpointError, ConfigError, UserError
from sts_lightning.core.hardware import local_gpu
from sts_lightning.models.compute.inference import is_out_of_memory
from sts_lightning.models.encoder import FurtherSettings, SentenceEncoder, load_model
from sts_lightning.models.loading.backbone import (
    NAMES,
    DtypeName,
    Loaded,
    check_finite,
    configure,
    dtype_of,
    explain,
    has_stand_in,
    is_causal,
    never_repack,
    quantised_loading,
    restrain_library,
)
from sts_lightning.models.loading.hub import OWN_FILE, POOLINGS, ModelFiles
from sts_lightning.models.pooling import Pooling, Projection
from sts_lightning.models.text.template import MASK, SLOT

log = logging.getLogger(__name__)

UNLIMITED = 10**6
"""Length that a tokenizer or a pipeline states, from which it means none."""

ORDER = r"(Transformer,Pooling,|StaticEmbedding,)(Dense,)*(Normalize,)?"
"""Modules of a pipeline that is read, in their order."""

EXPORTED = "template_transformer.TemplateTransformer"
"""Module of this project's exports that need code. It is described by `OWN_FILE`, and not run."""

NEUTRAL = {"torch_dtype", "dtype", "attn_implementation", "trust_remote_code", "add_pooling_layer"}
"""Arguments of loading in a transformer's settings that change no vector, and load no code, here."""

TEXTS = ["A Dog runs: it's in the PARK.", "Someone plays an old guitar while two men sit on a bench. " * 25]
"""Texts of the comparison with sentence-transformers: capitals, punctuation, and more than 256 tokens."""


@dataclass(frozen=True)
class Pipeline:
    """Whatever determines a sentence's vector besides the transformer.

    Attributes:
        source: File that describes it.
        settings: Arguments of `SentenceEncoder`.
        row_tokens: Number of tokens after which a row is truncated, special tokens and template included.
        sentence_tokens: The same for the bare sentence in a template.
        template: Text around each sentence, of this project's exports.
        prompts: Texts that can be put before a sentence, by name.
        default_prompt: Name of the prompt that is used if none is chosen.
        roles: Prefix by role, of this project's exports.
        text_edit: Edit of each sentence.
        static: Table of static embeddings with its tokenizer, in place of a transformer.
        expected: Vectors of `TEXTS` by sentence-transformers, without a role and by role.
    """

    source: str
    settings: dict[str, Any] = field(default_factory=dict)
    row_tokens: int | None = None
    sentence_tokens: int | None = None
    template: str | None = None
    prompts: Mapping[str, str | None] = field(default_factory=dict)
    default_prompt: str | None = None
    roles: Mapping[Role, str] = field(default_factory=dict)
    text_edit: TextEdit = "none"
    static: Loaded | None = None
    expected: Mapping[Role | None, np.ndarray] = field(default_factory=dict)


def from_pipeline(
    name: str,
    pooling: Pooling | None = None,
    max_length: int | None = None,
    limit: int | None = None,
    normalize: bool | None = None,
    projection: Projection | None = None,
    template: str | None = None,
    query: str | None = None,
    document: str | None = None,
    prompt_name: str | None = None,
    config: dict[str, Any] | None = None,
    trust_remote_code: bool = False,
    dtype: DtypeName = "float32",
    quantization: Quantization = "none",
    device: str | None = None,
    **settings: Unpack[FurtherSettings],
) -> SentenceEncoder:
    """Load a model with its pipeline, as a folder of sentence-transformers or of an export describes it.

    sentence-transformers reads its folders, static embeddings included; its vectors of two texts must be
    those of the encoder, so that a folder with anything that has no equivalent here is rejected. Each setting
    that is given takes precedence over the pipeline. A model without such files gets mean pooling, or the
    last token if its attention layers state that they are causal (those of Bloom, XGLM and Mamba do not).

    Args:
        name: Local folder, also that of an adapter, or id on the model hub, optionally with ``@commit``.
        pooling: See `SentenceEncoder`; None for that of the pipeline, also for the arguments below.
        max_length: Maximum number of tokens of a sentence in training; by default that of the pipeline, but
            at most 256.
        limit: The same in evaluation; by default that of the pipeline.
        normalize: Whether vectors are scaled to length 1.
        projection: ``none`` drops dense layers of the pipeline.
        template: Text with the slot ``{sentence}``; by default the pipeline's default prompt.
        query: Prefix of queries; by default the pipeline's prompt ``query``, "" for none.
        document: Prefix of the texts that answer them; by default its prompt ``document`` or ``passage``.
        prompt_name: Name of one of the pipeline's prompts.
        config: See `load_model`, also for the arguments below.
        trust_remote_code: Whether to run code that comes with the transformer; other modules are never run.
        dtype: dtype of the transformer's weights.
        quantization: Quantisation of the linear layers.
        device: Device that quantised weights are loaded to.
        **settings: Further settings of `SentenceEncoder`.

    Raises:
        ConfigError: The pipeline has a part without an equivalent here, a setting contradicts it, the model
            cannot be loaded, or sentence-transformers is needed and not installed.
        CheckpointError: The model's files are broken.
    """
    files = ModelFiles(name)
    pipeline = _read(files, prompt_name, config or {}, trust_remote_code, dtype, quantization, device)
    # The library's copy of the weights is gone by now. They are read again, since the library does not reject
    # missing or broken ones, and reads no adapter here.
    backbone, tokenizer = pipeline.static or load_model(
        name,
        config=config,
        trust_remote_code=trust_remote_code,
        dtype=dtype,
        quantization=quantization,
        device=device,
    )
    if pipeline.source == name and is_causal(backbone):  # nothing describes its pipeline
        pipeline.settings["pooling"] = "last_token"
    if prompt_name is not None and (template or pipeline.template) is not None:
        raise ConfigError(
            f"model.prompt_name={prompt_name} and prompt.template exclude each other.",
            key="model.prompt_name",
        )
    if "projector" in pipeline.settings and projection not in (None, "none"):
        raise ConfigError(
            f"model.projection={projection} would put new layers in place of those of {pipeline.source}.",
            key="model.projection",
            hint="Leave it null to keep them, or set it to none to drop them.",
        )
    default = _template(pipeline, tokenizer, prompt_name)
    roles = _roles(pipeline, default)
    if pipeline.expected:
        roles = _compare(
            _build(pipeline, backbone, tokenizer, default, roles), pipeline.expected, roles, name
        )
    if template is None:
        template = default
    # Where another setting excludes prompts by role, the pipeline's are left out.
    asymmetric = (template or SLOT).endswith(SLOT) and pooling != "mask_token"
    if not asymmetric or settings.get("view_templates") or settings.get("denoise", "none") != "none":
        roles = {}
    given: dict[Any, Any] = {
        "pooling": pooling,
        "max_length": max_length,
        "limit": limit,
        "normalize": normalize,
        "projection": projection,
        **roles,
        **{role: text for role, text in (("query", query), ("document", document)) if text is not None},
        **settings,
        "bidirectional_layers": settings.get("bidirectional_layers") or None,  # 0 is the default
    }
    encoder = _build(pipeline, backbone, tokenizer, template, given)
    encoder.text_edit = pipeline.text_edit
    rows, text = encoder.tokenizer, "%s: pooling %s, template %r, %s%s tokens"
    prompts = "".join(f"{role} {template!r}, " for role, template in rows.roles.items())
    log.info(text, pipeline.source, encoder.pooling, rows.template, prompts, rows.limit)
    return encoder


def _reject(name: str, what: str) -> ConfigError:
    return ConfigError(
        f"the pipeline of {name} has {what}, which has no equivalent here.",
        key="model.name",
        hint="Choose another model, or take its transformer alone, with a pooling of your choice: "
        "model=bert_base with this model.name.",
    )


def _read(files: ModelFiles, prompt_name: str | None, *loading: Any) -> Pipeline:
    """Read the pipeline of a model; its source is the model's name if nothing describes one."""
    if Path(files.source).is_dir() and not Path(files.name).is_dir():
        # The packaged copy, all-MiniLM-L6-v2, needs no further library.
        return Pipeline(f"{files.name} (the packaged copy)", {"normalize": True}, row_tokens=256)
    entries, exported = files.json("modules.json", list), files.json(OWN_FILE, dict)
    try:
        modules = [(str(entry["type"]), str(entry["path"])) for entry in entries]
    except (TypeError, KeyError) as error:
        raise CheckpointError(f"{files.name}: modules.json is broken.", key="model.name") from error
    dense = [path for name, path in modules if name.endswith(".Dense")]
    if exported and (not modules or modules[0][0] == EXPORTED or _has_text(exported)):
        return _of_export(files, exported, dense)
    if not modules and files.json("config.json", dict).get("model_type") != "model2vec":
        return Pipeline(files.name)
    if has_stand_in():
        log.warning("%s: the plan leaves out its prompt, its dense layers and its length.", files.name)
        return Pipeline(f"{files.name} (transformer)", prompts={prompt_name or "": None})
    names = "".join(f"{name.rpartition('.')[2]}," for name, _ in modules)
    ours = all(name.startswith("sentence_transformers.") for name, _ in modules)
    at_top = not (names.startswith("Transformer") and modules[0][1])  # as its checked settings
    if modules and not (ours and at_top and re.fullmatch(ORDER, names)):
        raise _reject(files.name, f"the modules {', '.join(f'{name} in {path!r}' for name, path in modules)}")
    for path in dense:
        activation = files.json(f"{path}/config.json", dict).get("activation_function", "torch.nn.")
        if not str(activation).startswith("torch.nn."):  # the library would put tanh in its place
            raise _reject(files.name, f"the activation {activation} in {path}")
    first = modules[0][0] if modules else None
    return _of_sentence_transformers(files, first, prompt_name, *loading)


def _has_text(exported: Mapping[str, Any]) -> bool:
    """Return whether an export puts something around sentences, which the library's files need not tell."""
    return any(exported.get(key) is not None for key in ("template", "query", "document"))


class Exported(BaseModel, strict=True):
    """Settings of a model or adapter that this project exported; see `SentenceEncoder`."""

    pooling: Pooling = "mean"
    template: str | None = None
    query: str | None = None
    document: str | None = None
    max_length: int | None = Field(default=None, ge=1)
    layer: int = -1
    bidirectional_layers: int = Field(default=0, ge=-1)
    projection: Projection = "none"
    normalize: bool = False
    truncate_dim: int | None = Field(default=None, ge=1)
    denoise_evaluation: bool = False
    text_edit: TextEdit = "none"


def _library(files: ModelFiles) -> tuple[Any, Any]:
    """Return the model class of sentence-transformers, and the namespace of its modules."""
    try:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer import modules
    except ImportError as error:
        raise ConfigError(
            f"{files.name} is a folder of sentence-transformers, which is needed to read it.",
            key="model.name",
            hint="pip install 'sts-lightning[st]'",
        ) from error
    return SentenceTransformer, modules


@contextmanager
def _reading(files: ModelFiles) -> Iterator[None]:
    """Explain the library's errors, and keep a run's random numbers from those that it draws."""
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    except UserError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise explain(files.name, error) from error


def _of_export(files: ModelFiles, settings: dict[str, Any], dense: Sequence[str]) -> Pipeline:
    """Read the settings of a model or adapter that this project exported; ``dense`` are folders of layers."""
    try:
        exported = Exported.model_validate(settings)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise CheckpointError(
            f"{files.name}: {OWN_FILE}: {wrong['loc'][0]}: {wrong['msg']}, got {wrong['input']!r}.",
            key="model.name",
        ) from error
    if (exported.projection == "always" and not dense) or exported.denoise_evaluation:
        lost = "prompt.denoise_evaluation=true" if exported.denoise_evaluation else "model.projection=always"
        raise ConfigError(
            f"{files.name} was exported from a run with {lost}, which its format does not hold.",
            key="model.name",
            hint="Export the run with --format sentence-transformers, or use the run itself.",
        )
    with _reading(files):
        layers = _projector(
            [_library(files)[1].Dense.load(files.source, subfolder=path, **files.options) for path in dense],
            files.name,
        )
    taken = {"pooling", "normalize", "truncate_dim", "layer", "bidirectional_layers"}
    given = exported.model_dump(include=taken)
    counted: dict[str, Any] = {
        "sentence_tokens" if _has_text(settings) else "row_tokens": exported.max_length
    }
    named: list[tuple[Role, str | None]] = [("query", exported.query), ("document", exported.document)]
    return Pipeline(
        f"{files.name}: {OWN_FILE}",
        given | layers,
        template=exported.template,
        roles={role: text for role, text in named if text is not None},
        text_edit=exported.text_edit,
        **counted,
    )


def _of_sentence_transformers(
    files: ModelFiles,
    first: str | None,
    prompt_name: str | None,
    config: dict[str, Any],
    trust_remote_code: bool,
    dtype: DtypeName,
    quantization: Quantization,
    device: str | None,
) -> Pipeline:
    """Let the library load a model, and take over its modules; ``first`` is the class of the first module."""
    load, library = _library(files)
    quantised = quantised_loading(quantization, dtype, device)
    # In float32 on the host, a decoder of 7B would take 28 GB. A large one stays as it is going to be used.
    large = first is not None and "Transformer" in first and bool(quantised or dtype_of(dtype).itemsize < 4)
    gpu = local_gpu() if large and torch.cuda.is_available() else "cpu"
    place = torch.device(quantised["device_map"][""] if quantised else gpu)
    restrain_library()
    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    options = {"local_files_only": Path(files.source).is_dir(), **files.options}
    with _reading(files):
        if first is not None:
            if not trust_remote_code and "Transformer" in first:
                _check_loading(files, library.Transformer.load_config(files.source, **options))
            loading = {
                "use_safetensors": None,  # as in `load_backbone`
                "weights_only": True,
                "dtype": dtype_of(dtype),
                "attn_implementation": "eager",  # takes precedence over a kernel that the files name
                **quantised,
            }
            model = load(
                files.source,
                device=None if quantised else str(place),
                trust_remote_code=trust_remote_code,
                model_kwargs=loading,
                config_kwargs={key: value for key, value in config.items() if key not in NAMES},
                **options,
            )
        else:  # model2vec's format
            normal = [library.Normalize()] if files.json("config.json", dict).get("normalize") else []
            model = load(modules=[library.StaticEmbedding.load(files.source, **options), *normal])
        prompts = model.prompts
        known = prompt_name is None or prompt_name in prompts  # an unknown one is rejected later
        if not large:
            model.float()
        never_repack(model)
        expected: dict[Role | None, np.ndarray] = {}
        if known:
            expected[None] = model.encode(TEXTS, prompt_name=prompt_name)
            for role, text in _prompts_by_role(prompts).items():
                expected[role] = model.encode(TEXTS, prompt=text)
    modules: list[Any] = list(model)
    pooling = next((module.pooling_mode for module in modules if isinstance(module, library.Pooling)), "mean")
    static = None
    if isinstance(modules[0], library.StaticEmbedding):
        from sts_lightning.models.architectures.static_embeddings import static_backbone

        static = static_backbone(modules[0])
    settings = {
        "pooling": POOLINGS.get(pooling, "mean"),  # of another mode, the vectors are compared in vain
        "normalize": isinstance(modules[-1], library.Normalize),
        "truncate_dim": model.truncate_dim,
    }
    similarity = str(model.similarity_fn_name)
    if similarity != "cosine" and not (similarity == "dot" and settings["normalize"]):  # at length 1 the same
        log.warning("%s: trained for similarity %r; scores here are cosines.", files.name, similarity)
    return Pipeline(
        source=f"{files.name}: modules.json",
        settings=settings
        | _projector([module for module in modules if isinstance(module, library.Dense)], files.name),
        row_tokens=None if static is not None else model.max_seq_length,
        prompts=prompts,
        default_prompt=model.default_prompt_name,
        static=static,
        expected=expected,
    )


def _check_loading(files: ModelFiles, settings: dict[str, Any]) -> None:
    """Reject a transformer for which the library would load or call more than weights, by its settings."""
    config = AutoConfig.from_pretrained(files.source, trust_remote_code=False, **files.options)
    configure(config, {}, files.name, trust_remote_code=False)
    further = {
        name
        for key, values in settings.items()
        if key.endswith(("_args", "_kwargs"))
        for name in values or ()
    }
    further -= NEUTRAL
    if files.path("adapter_config.json") is not None:
        further.add("adapter_config.json")
    modalities = (settings.get("modality_config") or {}).values()
    further |= {str(modality.get("method")) for modality in modalities} - {"forward"}
    if further:
        raise _reject(files.name, f"a transformer with {', '.join(sorted(further))}")


def _projector(dense: Sequence[Any], name: str) -> dict[str, Any]:
    """Return dense layers with their activations as arguments of `SentenceEncoder`."""
    if not dense:
        return {}
    layers = nn.Sequential(
        *(layer for module in dense for layer in (module.linear, module.activation_function))
    )
    check_finite(layers.named_parameters(), name, "model.name")
    layers.to("meta" if has_stand_in() else "cpu", torch.float32)
    return {"projection": "always", "projector": layers}


def _template(pipeline: Pipeline, tokenizer: PreTrainedTokenizerBase, prompt_name: str | None) -> str | None:
    """Return the template of an export, or that of a prompt."""
    if pipeline.template is not None:
        mask = tokenizer.mask_token  # an export contains the token itself
        return pipeline.template if mask is None else pipeline.template.replace(mask, MASK)
    chosen = pipeline.default_prompt if prompt_name is None else prompt_name
    if chosen is None:
        return None
    if chosen not in pipeline.prompts:
        known = ", ".join(sorted(pipeline.prompts)) or "none"
        raise ConfigError(
            f"model.prompt_name={chosen} is not among the prompts of {pipeline.source} ({known}).",
            key="model.prompt_name",
        )
    text = pipeline.prompts[chosen]
    return text + SLOT if text else None


ROLE_NAMES: dict[Role, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage")}
"""Names of a pipeline's prompts by role; of several the first one that is not empty is taken.

``encode_document`` of the library takes ``document`` where that is empty, as in files that do not name it.
"""


def _prompts_by_role(prompts: Mapping[str, str | None]) -> dict[Role, str]:
    """Return the prompts of a pipeline by role; nothing if both are empty, as in files that name none."""
    found: dict[Role, str] = {
        role: next(filter(None, map(prompts.get, names)), "")
        for role, names in ROLE_NAMES.items()
        if not prompts.keys().isdisjoint(names)
    }
    return found if any(found.values()) else {}


def _roles(pipeline: Pipeline, template: str | None) -> dict[Role, str]:
    """Return the pipeline's prompts by role; nothing if they are the template anyway."""
    roles = dict(pipeline.roles) or _prompts_by_role(pipeline.prompts)
    same = all(text + SLOT == (template or SLOT) for text in roles.values())
    return {} if same or not (template or SLOT).endswith(SLOT) else roles


def _build(
    pipeline: Pipeline,
    backbone: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    template: str | None,
    given: Mapping[Any, Any],
) -> SentenceEncoder:
    """Build the encoder of a pipeline; ``given`` settings take precedence over it, unless they are None."""
    stated = (pipeline.row_tokens, tokenizer.model_max_length)
    rows = [count for count in stated if count is not None and count < UNLIMITED]
    chosen: dict[str, Any] = {
        "max_length": None,
        "limit": pipeline.sentence_tokens,
        # A limit that is given may be larger than those of the files.
        "row_limit": min(rows, default=None) if given.get("limit") is None else None,
        **pipeline.settings,
    }
    chosen |= {key: value for key, value in given.items() if value is not None}
    return SentenceEncoder(backbone, tokenizer, template=template, **chosen)


def _compare(
    encoder: SentenceEncoder, expected: Mapping[Role | None, np.ndarray], roles: dict[Role, str], name: str
) -> dict[Role, str]:
    """Reject a pipeline whose vectors are others than those of sentence-transformers; return its roles.

    Where those of a role alone are others, as where the pooling leaves the prompt out, roles are left out.
    """
    encoder.tells_truncation = False  # of the long text
    tolerance = tolerance_of(encoder)
    for role in (None, *roles):
        vectors, theirs = encoder.encode(TEXTS, prompt=role), expected[role]
        size = np.linalg.norm(theirs, axis=1).max()
        if vectors.shape == theirs.shape and np.abs(vectors - theirs).max() <= tolerance * size:
            continue
        if role is None:
            raise _reject(name, "something by which its vectors are others than those that are computed here")
        log.warning(
            "WARNING: %s: its prompts by role are left out: vectors of a %s are others here.", name, role
        )
        roles = {}
        break
    encoder.tells_truncation = True
    return roles


def tolerance_of(encoder: SentenceEncoder) -> float:
    """Return the largest difference from another library's vectors, as a fraction of the longest vector."""
    backbone = encoder.plain_backbone
    if getattr(backbone, "is_quantized", False):
        return 0.5
    return 1e-4 if backbone.dtype == torch.float32 else 0.05
