"""Encoders with the pipeline of a model: pooling, dense layers, normalisation, prompt, length."""

from __future__ import annotations

import inspect
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Unpack

import torch
from pydantic import BaseModel, Field, ValidationError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.utils import skip_init
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from sts_lightning.core.choices import Quantization, Role, TextEdit
from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.core.files import as_type
from sts_lightning.models.encoder import FurtherSettings, SentenceEncoder, load_model
from sts_lightning.models.loading.backbone import (
    DtypeName,
    Loaded,
    check_finite,
    explain,
    has_stand_in,
    is_causal,
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

MODES = ("cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
"""Modes of a pooling as older files name them, each after ``pooling_mode_`` with whether it is used."""

Neutral = Literal["torch_dtype", "dtype", "attn_implementation", "trust_remote_code", "add_pooling_layer"]
"""Arguments of loading in a transformer's settings that change no vector, and load no code, here."""

Method = dict[Literal["method", "method_output_name"], Literal["forward", "last_hidden_state"]]

TRANSFORMER: dict[str, Any] = {
    "max_seq_length": int | None,
    "do_lower_case": bool,
    "transformer_task": Literal["feature-extraction"],
    "modality_config": dict[Literal["text"], Method],  # "message" would be the template of a chat
    "module_output_name": Literal["token_embeddings"],
    "unpad_inputs": bool | None,  # how rows are put together, not what they are
    **dict.fromkeys(("query_length", "document_length", "query_expansion", "tokenizer_name_or_path"), None),
    **{
        f"{of}_{arguments}": dict[Neutral, Any]
        for of in ("model", "tokenizer", "processor", "config")
        for arguments in ("args", "kwargs")
    },
}
POOLING: dict[str, Any] = {
    "embedding_dimension": int,
    "word_embedding_dimension": int,
    "pooling_mode": str | list[str],
    "include_prompt": bool,
    **{f"pooling_mode_{mode}": bool for mode in MODES},
}
NORMALIZE: dict[str, Any] = {
    "module_input_name": Literal["sentence_embedding"],
    "module_output_name": Literal["sentence_embedding"] | None,
}
DENSE: dict[str, Any] = NORMALIZE | {
    "in_features": int,
    "out_features": int,
    "bias": bool,
    "activation_function": str,
    "use_residual": Literal[False],
}
MODEL: dict[str, Any] = {
    "__version__": Any,
    "requirements": Any,
    "model_type": Literal["SentenceTransformer"],
    "prompts": dict[str, str | None],
    "default_prompt_name": str | None,
    "similarity_fn_name": str | None,
    "truncate_dim": int | None,
}
"""Keys of the settings of each module and of the whole, with the values that have an equivalent here."""

OLD_NAMES = ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
"""Models with a name of their own for sentence_bert_config.json in older files."""

ACTIVATIONS: dict[str, type[nn.Module]] = {
    layer.__name__: layer
    for layer in (nn.Tanh, nn.Identity, nn.ReLU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.LeakyReLU, nn.ELU)
}
"""Activations of dense layers by name; the library makes each without arguments."""

ENCODERS = ("longt5", "switch_transformers")
"""Types of encoder-decoders, besides T5's, of which sentence-transformers runs the encoder too."""


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
        transformer: Folder or hub id of the transformer of a folder of sentence-transformers.
        lower_case: Whether the pipeline lowers texts.
        pools_prompt: Whether the pooling reads the tokens of a prompt.
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
    transformer: str | None = None
    lower_case: bool = False
    pools_prompt: bool = True


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

    A module of a folder, or a key of its settings, that is not known to have an equivalent here is rejected
    by name. Each setting that is given takes precedence over the pipeline. A model without such files gets
    mean pooling, or the last token if its attention layers state that they are causal (those of Bloom, XGLM
    and Mamba do not).

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
        ConfigError: The pipeline has a part without an equivalent here, a setting contradicts it, or the
            model cannot be loaded.
        CheckpointError: The model's files are broken.
    """
    files = ModelFiles(name)
    pipeline = _read(files)
    backbone, tokenizer = pipeline.static or load_model(
        pipeline.transformer or name,
        config=config,
        trust_remote_code=trust_remote_code,
        dtype=dtype,
        quantization=quantization,
        device=device,
    )
    if pipeline.transformer is not None:
        _check_transformer(pipeline, backbone, tokenizer, name)
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
    if not pipeline.pools_prompt:
        if default is not None:
            raise _reject(name, "a prompt that include_prompt=false leaves out of the pooling")
        if roles:
            log.warning("WARNING: %s: its prompts by role are left out, as its pooling does.", name)
        roles = {}
    if template is None:
        template = default
    # Where another setting excludes prompts by role, the pipeline's are left out.
    asymmetric = (template or SLOT).endswith(SLOT) and pooling != "mask_token"
    if not asymmetric or settings.get("view_templates") or settings.get("denoise", "none") != "none":
        roles = {}
    rows = tokenizer.model_max_length if pipeline.row_tokens is None else pipeline.row_tokens
    chosen: dict[Any, Any] = {
        "limit": pipeline.sentence_tokens,
        # A limit that is given may be larger than those of the files.
        "row_limit": rows if limit is None and rows < UNLIMITED else None,
        **pipeline.settings,
    }
    given: dict[Any, Any] = {
        "pooling": pooling,
        "limit": limit,
        "normalize": normalize,
        "projection": projection,
        **roles,
        **{role: text for role, text in (("query", query), ("document", document)) if text is not None},
        **settings,
        "bidirectional_layers": settings.get("bidirectional_layers") or None,  # 0 is the default
    }
    chosen |= {key: value for key, value in given.items() if value is not None}
    encoder = SentenceEncoder(backbone, tokenizer, max_length=max_length, template=template, **chosen)
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


def _read(files: ModelFiles) -> Pipeline:
    """Read the pipeline of a model; its source is the model's name if nothing describes one."""
    if Path(files.source).is_dir() and not Path(files.name).is_dir():
        # The packaged copy, all-MiniLM-L6-v2.
        return Pipeline(f"{files.name} (the packaged copy)", {"normalize": True}, row_tokens=256)
    entries, exported = files.json("modules.json", list), files.json(OWN_FILE, dict)
    try:
        modules = [(str(entry["type"]), str(entry["path"])) for entry in entries]
    except (TypeError, KeyError) as error:
        raise CheckpointError(f"{files.name}: modules.json is broken.", key="model.name") from error
    dense = [path for name, path in modules if name.endswith(".Dense")]
    if exported and (not modules or modules[0][0] == EXPORTED or _has_text(exported)):
        return _of_export(files, exported, dense)
    if modules:
        return _of_sentence_transformers(files, modules)
    settings = files.json("config.json", dict)
    if settings.get("model_type") != "model2vec":
        return Pipeline(files.name)
    normalize = bool(settings.get("normalize"))
    return Pipeline(f"{files.name}: model2vec", {"normalize": normalize}, static=_static(files, ""))


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
    taken = {"pooling", "normalize", "truncate_dim", "layer", "bidirectional_layers"}
    given = exported.model_dump(include=taken)
    counted: dict[str, Any] = {
        "sentence_tokens" if _has_text(settings) else "row_tokens": exported.max_length
    }
    named: list[tuple[Role, str | None]] = [("query", exported.query), ("document", exported.document)]
    return Pipeline(
        f"{files.name}: {OWN_FILE}",
        given | _projector(files, dense),
        template=exported.template,
        roles={role: text for role, text in named if text is not None},
        text_edit=exported.text_edit,
        **counted,
    )


def _at(folder: str, file: str) -> str:
    return f"{folder}/{file}" if folder else file


def _settings(files: ModelFiles, file: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in a file, none if it is absent; what has no equivalent here is named."""
    settings = files.json(file, dict)
    for key, value in settings.items():
        try:
            as_type(value, known[key])
        except (KeyError, ValueError) as error:
            raise _reject(files.name, f"{key}={json.dumps(value)[:80]} in {file}") from error
    return settings


def _of_sentence_transformers(files: ModelFiles, modules: Sequence[tuple[str, str]]) -> Pipeline:
    """Read a folder of sentence-transformers, given the class and the folder of each module."""
    names = "".join(f"{name.rpartition('.')[2]}," for name, _ in modules)
    library = all(name.startswith("sentence_transformers.") for name, _ in modules)
    if not library or not re.fullmatch(ORDER, names):
        raise _reject(files.name, f"the modules {', '.join(f'{name} in {path!r}' for name, path in modules)}")
    folders = [("" if path == "." else path) for _, path in modules]
    model = _settings(files, "config_sentence_transformers.json", MODEL)
    normalize = names.endswith("Normalize,")
    if normalize and folders[-1]:  # some files name the folder that has the transformer's settings
        _settings(files, _at(folders[-1], "config.json"), NORMALIZE)
    settings = {"normalize": normalize, "truncate_dim": model.get("truncate_dim")}
    settings |= _projector(files, [path for name, path in modules if name.endswith(".Dense")])
    further: dict[str, Any]
    if names.startswith("StaticEmbedding"):
        further = {"static": _static(files, folders[0])}
    else:
        further = _transformer(files, folders[0])
        settings["pooling"], further["pools_prompt"] = _pooling(files, folders[1])
    similarity = model.get("similarity_fn_name") or "cosine"
    if similarity != "cosine" and not (similarity == "dot" and normalize):  # at length 1 the same
        log.warning("%s: trained for similarity %r; scores here are cosines.", files.name, similarity)
    return Pipeline(
        f"{files.name}: modules.json",
        settings,
        prompts=model.get("prompts", {}),
        default_prompt=model.get("default_prompt_name"),
        **further,
    )


def _transformer(files: ModelFiles, folder: str) -> dict[str, Any]:
    """Return what the settings of a transformer say, as attributes of a `Pipeline`."""
    if folder and not Path(files.source).is_dir():
        raise _reject(files.name, f"its transformer in the folder {folder!r} of a hub repository")
    if files.path(_at(folder, "adapter_config.json")) is not None:
        raise _reject(files.name, "a transformer with adapter_config.json")
    named = (_at(folder, f"sentence_{name}_config.json") for name in ("bert", *OLD_NAMES))
    settings = next(filter(None, (_settings(files, file, TRANSFORMER) for file in named)), {})
    return {
        "transformer": str(Path(files.source) / folder) if folder else files.name,
        "row_tokens": settings.get("max_seq_length"),
        "lower_case": settings.get("do_lower_case", False),
    }


def _pooling(files: ModelFiles, folder: str) -> tuple[Pooling, bool]:
    """Return the pooling that a module's settings state, and whether it reads a prompt."""
    settings = _settings(files, _at(folder, "config.json"), POOLING)
    if not settings:
        raise CheckpointError(f"{files.name} lacks {_at(folder, 'config.json')}.", key="model.name")
    flagged = [mode.partition("_token")[0] for mode in MODES if settings.get(f"pooling_mode_{mode}")]
    stated = settings.get("pooling_mode") or flagged or "mean"
    modes = [stated] if isinstance(stated, str) else stated
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise _reject(files.name, f"the pooling {' and '.join(modes)}")
    # The last token is never that of a prompt.
    return POOLINGS[modes[0]], settings.get("include_prompt", True) or modes == ["lasttoken"]


def _projector(files: ModelFiles, folders: Sequence[str]) -> dict[str, Any]:
    """Return the dense layers of folders with their activations, as arguments of `SentenceEncoder`."""
    layers: list[nn.Module] = []
    for folder in folders:
        settings = _settings(files, _at(folder, "config.json"), DENSE)
        path = settings.get("activation_function", "torch.nn.Tanh")
        activation = ACTIVATIONS.get(path.rpartition(".")[2])
        if activation is None or not path.startswith("torch.nn."):
            raise _reject(files.name, f"the activation {path} in {folder}")
        try:
            sizes = settings["in_features"], settings["out_features"]
            linear = skip_init(nn.Linear, *sizes, bias=settings.get("bias", True))
            tensors = _tensors(files, folder)
            linear.load_state_dict({key.removeprefix("linear."): tensors[key] for key in tensors})
        except (KeyError, RuntimeError) as error:
            raise CheckpointError(
                f"{files.name}: config.json and weights in {folder} do not fit each other.", key="model.name"
            ) from error
        check_finite(linear.named_parameters(), f"{files.name}: {folder}", "model.name")
        layers += [linear, activation()]
    if not layers:
        return {}
    projector = nn.Sequential(*layers).to("meta" if has_stand_in() else "cpu")
    return {"projection": "always", "projector": projector}


def _static(files: ModelFiles, folder: str) -> Loaded:
    """Read the table of static embeddings, with a vector for each token, and its tokenizer."""
    from sts_lightning.models.architectures.static_embeddings import static_backbone

    tensors, tokenizer = _tensors(files, folder), files.path(_at(folder, "tokenizer.json"))
    if tokenizer is None:
        raise CheckpointError(f"{files.name} lacks {_at(folder, 'tokenizer.json')}.", key="model.name")
    unknown = tensors.keys() - {"embedding.weight", "embeddings", "mapping", "weights"}
    table = tensors.get("embedding.weight", tensors.get("embeddings"))
    if unknown or table is None or not table.is_floating_point():
        held = ", ".join(f"{key} ({tensors[key].dtype})" for key in tensors)
        raise _reject(files.name, f"a table of {held}")
    check_finite(tensors.items(), files.name, "model.name")
    table = table.float()
    if "mapping" in tensors:  # model2vec: several tokens have the vector of one row
        table = table[tensors["mapping"].long()]
    if "weights" in tensors:
        table = table * tensors["weights"].float()[:, None]
    try:
        return static_backbone(table, tokenizer)
    except Exception as error:  # tokenizers raises no class of its own
        raise explain(files.name, error) from error


def _tensors(files: ModelFiles, folder: str) -> dict[str, Tensor]:
    """Read the tensors of a module: from safetensors, or a pickle of which no code is run."""
    names = ("model.safetensors", "pytorch_model.bin")
    found = next(filter(None, (files.path(_at(folder, name)) for name in names)), None)
    if found is None:
        raise CheckpointError(f"{files.name} lacks {_at(folder, ' and '.join(names))}.", key="model.name")
    try:
        if found.suffix == ".safetensors":
            return load_file(found)
        return dict(torch.load(found, map_location="cpu", weights_only=True))
    except Exception as error:  # each library has other errors for damaged files
        raise explain(files.name, error) from error


def _check_transformer(
    pipeline: Pipeline, backbone: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str
) -> None:
    """Reject what sentence-transformers does with a transformer by itself, and nothing does here."""
    config, text = backbone.config, "The Dog RUNS in THE park"
    if getattr(config, "is_encoder_decoder", False) and config.model_type not in ENCODERS:
        raise _reject(name, f"the decoder of {config.model_type}")
    if pipeline.lower_case and tokenizer(text)["input_ids"] != tokenizer(text.lower())["input_ids"]:
        raise _reject(name, "do_lower_case=true with a tokenizer that reads capitals")
    types = tokenizer(text).get("token_type_ids") or ()
    if any(types) and "token_type_ids" in inspect.signature(backbone.forward).parameters:
        raise _reject(name, "a tokenizer with token types of several kinds")


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


def tolerance_of(encoder: SentenceEncoder) -> float:
    """Return the largest difference from another library's vectors, as a fraction of the longest vector."""
    backbone = encoder.plain_backbone
    if getattr(backbone, "is_quantized", False):
        return 0.5
    return 1e-4 if backbone.dtype == torch.float32 else 0.05
