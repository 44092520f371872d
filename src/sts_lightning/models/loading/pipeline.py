"""Encoders with the pipeline of a model: pooling, dense layers, normalisation, prompt, length."""

from __future__ import annotations

import inspect
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from sts_lightning.core.choices import DtypeName, Precision, Quantization, Role
from sts_lightning.core.errors import CheckpointError, ConfigError, UserError
from sts_lightning.core.files import as_type
from sts_lightning.models.encoder import SentenceEncoder, pinned
from sts_lightning.models.encoding import Base, EncodingConfig, takes_settings
from sts_lightning.models.loading.backbone import (
    Loaded,
    Loader,
    explain,
    is_causal,
    load_backbone,
)
from sts_lightning.models.loading.checks import copy_weights, read_weights
from sts_lightning.models.loading.hub import OWN_FILE, SETTINGS, ModelFiles, find_adapter
from sts_lightning.models.loading.own_file import TRAINING, base_of, read_own, read_training
from sts_lightning.models.pooling import Pooling
from sts_lightning.models.text.template import SLOT

if TYPE_CHECKING:
    from peft import PeftConfig

log = logging.getLogger(__name__)

NO_LENGTH_LIMIT = 10**6
"""Length that a tokenizer or a pipeline states, from which it means none."""

ORDER = r"(Transformer,Pooling,|StaticEmbedding,)(Dense,)*(Normalize,)?"
"""Modules of a pipeline that is read, in their order."""

MODES = ("cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
"""Modes of a pooling as older files name them, each after ``pooling_mode_`` with whether it is used."""

POOLINGS: dict[str, Pooling] = {"cls": "cls", "mean": "mean", "lasttoken": "last_token"}
"""Pooling by the name of its mode in sentence-transformers; the other modes have no equivalent here."""

Neutral = Literal["torch_dtype", "dtype", "attn_implementation", "trust_remote_code", "add_pooling_layer"]
"""Arguments of loading in a transformer's settings that change no vector, and load no code, here."""

Method = dict[Literal["method", "method_output_name"], Literal["forward", "last_hidden_state"]]

NORMALIZE: dict[str, Any] = {
    "module_input_name": Literal["sentence_embedding"],
    "module_output_name": Literal["sentence_embedding"] | None,
}

KEYS: dict[str, dict[str, Any]] = {
    "Transformer": {
        "max_seq_length": int | None,
        "do_lower_case": bool,
        "transformer_task": Literal["feature-extraction"],
        "modality_config": dict[Literal["text"], Method],  # "message" would be the template of a chat
        "module_output_name": Literal["token_embeddings"],
        "unpad_inputs": bool | None,  # how rows are put together, not what they are
        **dict.fromkeys(
            ("query_length", "document_length", "query_expansion", "tokenizer_name_or_path"), None
        ),
        **{
            f"{of}_{arguments}": dict[Neutral, Any]
            for of in ("model", "tokenizer", "processor", "config")
            for arguments in ("args", "kwargs")
        },
    },
    "Pooling": {
        "embedding_dimension": int,
        "word_embedding_dimension": int,
        "pooling_mode": str | list[str],
        "include_prompt": bool,
        **{f"pooling_mode_{mode}": bool for mode in MODES},
    },
    "Normalize": NORMALIZE,
    "Dense": NORMALIZE
    | {
        "in_features": int,
        "out_features": int,
        "bias": bool,
        "activation_function": str,
        "use_residual": Literal[False],
    },
    "SentenceTransformer": {
        "__version__": Any,
        "requirements": Any,
        "model_type": Literal["SentenceTransformer"],
        "prompts": dict[str, str | None],
        "default_prompt_name": str | None,
        "similarity_fn_name": str | None,
        "truncate_dim": int | None,
    },
}
"""Keys of the settings of each kind of module, and of the whole, with the values that have an equivalent."""

OLD_NAMES = ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
"""Models with a name of their own for sentence_bert_config.json in older files."""

ACTIVATIONS: dict[str, type[nn.Module]] = {
    layer.__name__: layer
    for layer in (nn.Tanh, nn.Identity, nn.ReLU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.LeakyReLU, nn.ELU)
}
"""Activations of dense layers by name; the library makes each without arguments."""

ENCODERS = ("longt5", "switch_transformers")
"""Types of encoder-decoders, besides T5's, of which sentence-transformers runs the encoder too."""


class Module(TypedDict):
    """Entry of modules.json: the class of a module, and its folder."""

    type: str
    path: str


@dataclass(frozen=True)
class Pipeline:
    """Whatever determines a sentence's vector besides the transformer.

    Attributes:
        source: File that describes it.
        settings: Fields of `EncodingConfig`.
        projector: Dense layers.
        prompts: Texts that can be put before a sentence, by name.
        default_prompt: Name of the prompt that is used if none is chosen.
        static: Table of static embeddings with its tokenizer, in place of a transformer.
        transformer: Folder or hub id of the transformer of a folder of sentence-transformers.
        lower_case: Whether the pipeline lowers texts.
        pools_prompt: Whether the pooling reads the tokens of a prompt.
    """

    source: str
    settings: dict[str, Any] = field(default_factory=dict)
    projector: nn.Sequential | None = None
    prompts: Mapping[str, str | None] = field(default_factory=dict)
    default_prompt: str | None = None
    static: Loaded | None = None
    transformer: str | None = None
    lower_case: bool = False
    pools_prompt: bool = True


UNSAID = {"layer": -1, "denoise": "none", "denoise_evaluation": False, "bidirectional_layers": 0}
"""Values that say nothing: the groups ``prompt`` and ``model`` have them by default."""


@takes_settings(EncodingConfig, optional=True)
def from_pipeline(
    name: str,
    prompt_name: str | None = None,
    config: dict[str, Any] | None = None,
    trust_remote_code: bool = False,
    dtype: DtypeName = "float32",
    quantization: Quantization = "none",
    device: str | None = None,
    adapter: PeftConfig | None = None,
    loader: Loader = load_backbone,
    **settings: Any,
) -> SentenceEncoder:
    """Load a model with its pipeline, as a folder of sentence-transformers or of ours describes it.

    A module of a folder, or a key of its settings, that is not known to have an equivalent here is rejected
    by name. Each setting that is given takes precedence over the pipeline. A model without such files gets
    mean pooling, or the last token if its attention layers state that they are causal (those of Bloom, XGLM
    and Mamba do not). Its length in training is at most `TRAINING_TOKENS`, unless it is given.

    Args:
        name: Local folder, also that of an adapter, which is merged, or id on the model hub, optionally with
            ``@commit``.
        prompt_name: Name of one of the pipeline's prompts.
        config: See `load_backbone`, also for the arguments below.
        trust_remote_code: Whether to run code that comes with the transformer; other modules are never run.
        dtype: dtype of the transformer's weights.
        quantization: Quantisation of the linear layers.
        device: Device that the weights are loaded to.
        adapter: Settings of a new peft adapter.
        loader: Function that returns backbone and tokenizer.
        **settings: Fields of `EncodingConfig`; None for those of the pipeline. A
            ``projection`` other than ``always`` drops its dense layers, ``query=""`` a prompt.

    Raises:
        ConfigError: The pipeline has a part without an equivalent here, a setting contradicts it, or the
            model cannot be loaded.
        CheckpointError: The model's files are broken.
    """
    pipeline = _read(ModelFiles(name))
    base = Base(pipeline.transformer or name, dtype, quantization, config or {})
    backbone, tokenizer = pipeline.static or loader(base, trust_remote_code, device)
    given = {
        key: value
        for key, value in settings.items()
        if value is not None and not (key in UNSAID and UNSAID[key] == value)
    }
    stated = _stated(pipeline, backbone, tokenizer, name, prompt_name, given)
    projector = pipeline.projector if given.get("projection", "always") == "always" else None
    encoder = SentenceEncoder(
        backbone,
        tokenizer,
        adapter=adapter,
        base=pinned(base, backbone),
        projector=projector,
        **stated | given,
    )
    rows, text = encoder.tokenizer, "%s: pooling %s, template %r, %s%s tokens"
    prompts = "".join(f"{role} {template!r}, " for role, template in rows.roles.items())
    log.info(text, pipeline.source, encoder.config.pooling, rows.template, prompts, rows.lengths.model)
    return encoder


def read_model(
    name: str,
    trust_remote_code: bool = False,
    quantization: Quantization | None = None,
    device: str | None = None,
) -> tuple[SentenceEncoder, Precision | None]:
    """Load a model as it was trained, if its folder is one of ours: with its adapter, on its base.

    Args:
        name: See `from_pipeline`, also for what is read of other folders.
        trust_remote_code: Whether to run code that comes with the transformer.
        quantization: Quantisation of the linear layers; None for that of the training.
        device: Device that the weights are loaded to.

    Returns:
        The encoder, and the precision in which its weights are meant to be used; None for their own.
    """
    files = ModelFiles(name)
    own = read_own(files)
    if own is None:
        how = quantization or "none"
        return from_pipeline(name, None, None, trust_remote_code, "float32", how, device), None
    pipeline, folder = _read(files), find_adapter(name)
    refers = folder is not None or (pipeline.static is None and files.path("config.json") is None)
    base = base_of(files, own) if refers else replace(own.base, name=name, quantization="none")
    base = replace(base, quantization=quantization or base.quantization)
    backbone, tokenizer = pipeline.static or load_backbone(base, trust_remote_code, device)
    adapter: Any = None
    if folder is not None:
        from sts_lightning.models.loading.adapters import adapter_settings, load_adapter  # peft is slow

        adapter = adapter_settings(folder)
    with torch.random.fork_rng(devices=[]):  # a new adapter draws its weights
        encoder = SentenceEncoder(
            backbone,
            tokenizer,
            adapter=adapter,
            base=own.base if own.base.name is None else replace(own.base, quantization=base.quantization),
            projector=pipeline.projector,
            **pipeline.settings,
        )
        if folder is not None:
            load_adapter(encoder.backbone, folder)
    if own.encoding.projection not in ("none", "always") and (layers := read_training(files, "projector.")):
        copy_weights(layers, encoder.projector, f"{name}: {TRAINING}")
    return encoder, own.precision


def _stated(
    pipeline: Pipeline,
    backbone: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    name: str,
    prompt_name: str | None,
    given: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the settings of a pipeline that go with those that are given.

    Raises:
        ConfigError: It does something that has no equivalent here, or has no such prompt.
    """
    stated = {"max_length": None, "evaluation_length": None} | pipeline.settings
    if pipeline.transformer is not None:
        _check_transformer(pipeline, backbone, tokenizer, name)
    if pipeline.source == name and is_causal(backbone):  # nothing describes its pipeline
        stated["pooling"] = "last_token"
    if prompt_name is not None and (given.get("template") or stated.get("template")) is not None:
        raise ConfigError(
            f"model.prompt_name={prompt_name} and prompt.template exclude each other.",
            key="model.prompt_name",
        )
    if stated.get("template") is None:
        chosen = pipeline.default_prompt if prompt_name is None else prompt_name
        if chosen is not None and chosen not in pipeline.prompts:
            known = ", ".join(sorted(pipeline.prompts)) or "none"
            raise ConfigError(
                f"model.prompt_name={chosen} is not among the prompts of {pipeline.source} ({known}).",
                key="model.prompt_name",
            )
        prompt = None if chosen is None else pipeline.prompts[chosen]
        stated["template"] = prompt + SLOT if prompt else None
    default = stated["template"]
    roles: dict[str, str] = {role: text for role in get_args(Role) if (text := stated.get(role)) is not None}
    roles = roles or _prompts_by_role(pipeline.prompts)
    if all(text + SLOT == (default or SLOT) for text in roles.values()):
        roles = {}
    if not pipeline.pools_prompt:
        if default is not None:
            raise _reject(name, "a prompt that include_prompt=false leaves out of the pooling")
        if roles:
            log.warning("WARNING: %s: its prompts by role are left out, as its pooling does.", name)
        roles = {}
    # Where another setting excludes prompts by role, the pipeline's are left out.
    template = given.get("template", default) or SLOT
    asymmetric = template.endswith(SLOT) and given.get("pooling", stated.get("pooling")) != "mask_token"
    if not asymmetric or given.get("view_templates") or given.get("denoise", "none") != "none":
        roles = {}
    stated |= {"query": None, "document": None, **roles}
    if "template" in given:  # an own folder's is for its own template
        stated |= {"view_templates": None, "denoise": "none", "denoise_evaluation": False}
    if "limit" in given:  # a limit that is given may be larger than those of the files
        stated["row_limit"] = None
    elif stated.get("row_limit") is None and stated.get("limit") is None:
        rows = tokenizer.model_max_length
        stated["row_limit"] = rows if rows < NO_LENGTH_LIMIT else None
    return stated


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
        return Pipeline(f"{files.name} (the packaged copy)", {"normalize": True, "row_limit": 256})
    modules, own = files.json("modules.json", list[Module]), read_own(files)
    if own is not None and files.path("model.onnx") is not None:
        raise ConfigError(
            f"{files.name} is a graph, which onnxruntime reads; load the run or another export of it.",
            key="model.name",
        )
    if own is not None:
        held = [
            name for name in ("config.json", SETTINGS, "model.safetensors") if files.path(name) is not None
        ]
        static = _static(files, "") if held == ["model.safetensors"] else None
        settings = {field.name: getattr(own.encoding, field.name) for field in fields(own.encoding)}
        projector = read_projector(files)
        if projector is None and own.encoding.projection == "always":  # a new one would be random
            raise CheckpointError(f"{files.name}: modules.json has no dense layer.", key="model.name")
        return Pipeline(f"{files.name}: {OWN_FILE}", settings, projector, static=static)
    if modules:
        return _of_sentence_transformers(files, modules)
    settings = files.json("config.json", dict)
    if settings.get("model_type") != "model2vec":
        return Pipeline(files.name)
    normalize = bool(settings.get("normalize"))
    return Pipeline(f"{files.name}: model2vec", {"normalize": normalize}, static=_static(files, ""))


def _at(folder: str, file: str) -> str:
    return f"{folder}/{file}" if folder else file


def _settings(files: ModelFiles, file: str, kind: str) -> dict[str, Any]:
    """Return the settings in a file, none if it is absent; what has no equivalent here is named."""
    settings = files.json(file, dict)
    for key, value in settings.items():
        try:
            as_type(value, KEYS[kind][key])
        except (KeyError, ValueError) as error:
            raise _reject(files.name, f"{key}={json.dumps(value)[:80]} in {file}") from error
    return settings


def _of_sentence_transformers(files: ModelFiles, modules: Sequence[Module]) -> Pipeline:
    names = "".join(f"{module['type'].rpartition('.')[2]}," for module in modules)
    library = all(module["type"].startswith("sentence_transformers.") for module in modules)
    if not library or not re.fullmatch(ORDER, names):
        listed = ", ".join(f"{module['type']} in {module['path']!r}" for module in modules)
        raise _reject(files.name, f"the modules {listed}")
    folders = ["" if module["path"] == "." else module["path"] for module in modules]
    model = _settings(files, "config_sentence_transformers.json", "SentenceTransformer")
    normalize = names.endswith("Normalize,")
    if normalize and folders[-1]:  # some files name the folder that has the transformer's settings
        _settings(files, _at(folders[-1], "config.json"), "Normalize")
    similarity = model.get("similarity_fn_name") or "cosine"
    if similarity != "cosine" and not (similarity == "dot" and normalize):  # at length 1 the same
        log.warning("%s: trained for similarity %r; scores here are cosines.", files.name, similarity)
    settings = {"normalize": normalize, "truncate_dim": model.get("truncate_dim")}
    projector = read_projector(files)
    if projector is not None:
        settings["projection"] = "always"
    read = Pipeline(
        f"{files.name}: modules.json",
        settings,
        projector,
        prompts=model.get("prompts", {}),
        default_prompt=model.get("default_prompt_name"),
    )
    if names.startswith("StaticEmbedding"):
        return replace(read, static=_static(files, folders[0]))
    inside = folders[0]
    if inside and not Path(files.source).is_dir():
        raise _reject(files.name, f"its transformer in the folder {inside!r} of a hub repository")
    if files.path(_at(inside, SETTINGS)) is not None:
        raise _reject(files.name, f"a transformer with {SETTINGS}")
    named = (_at(inside, f"sentence_{name}_config.json") for name in ("bert", *OLD_NAMES))
    rows = next(filter(None, (_settings(files, file, "Transformer") for file in named)), {})
    pooling = _settings(files, _at(folders[1], "config.json"), "Pooling")
    if not pooling:
        raise CheckpointError(f"{files.name} lacks {_at(folders[1], 'config.json')}.", key="model.name")
    flagged = [mode.partition("_token")[0] for mode in MODES if pooling.get(f"pooling_mode_{mode}")]
    stated = pooling.get("pooling_mode") or flagged or "mean"
    modes = [stated] if isinstance(stated, str) else stated
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise _reject(files.name, f"the pooling {' and '.join(modes)}")
    settings |= {"row_limit": rows.get("max_seq_length"), "pooling": POOLINGS[modes[0]]}
    return replace(
        read,
        settings=settings,
        transformer=str(Path(files.source) / inside) if inside else files.name,
        lower_case=rows.get("do_lower_case", False),
        # The last token is never that of a prompt.
        pools_prompt=pooling.get("include_prompt", True) or modes == ["lasttoken"],
    )


def read_projector(files: ModelFiles) -> nn.Sequential | None:
    """Return the dense layers of a model folder with their activations; None if it has none."""
    modules = files.json("modules.json", list[Module])
    layers: list[nn.Module] = []
    for folder in [module["path"] for module in modules if module["type"].endswith(".Dense")]:
        settings = _settings(files, _at(folder, "config.json"), "Dense")
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
        layers += [linear, activation()]
    return nn.Sequential(*layers) if layers else None


def _static(files: ModelFiles, folder: str) -> Loaded:
    """Read the table of static embeddings, with a vector for each token, and its tokenizer."""
    from sts_lightning.models.loading.static_embeddings import static_backbone

    tensors, tokenizer = _tensors(files, folder), files.path(_at(folder, "tokenizer.json"))
    if tokenizer is None:
        raise CheckpointError(f"{files.name} lacks {_at(folder, 'tokenizer.json')}.", key="model.name")
    unknown = tensors.keys() - {"embedding.weight", "embeddings", "mapping", "weights"}
    table = tensors.get("embedding.weight", tensors.get("embeddings"))
    if unknown or table is None or not table.is_floating_point():
        held = ", ".join(f"{key} ({tensors[key].dtype})" for key in tensors)
        raise _reject(files.name, f"a table of {held}")
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
    return read_weights(found)


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


ROLE_NAMES: dict[Role, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage")}
"""Names of a pipeline's prompts by role; of several the first one that is not empty is taken.

``encode_document`` of the library takes ``document`` where that is empty, as in files that do not name it.
"""


def _prompts_by_role(prompts: Mapping[str, str | None]) -> dict[str, str]:
    """Return the prompts of a pipeline by role; nothing if both are empty, as in files that name none."""
    found: dict[str, str] = {
        role: next(filter(None, map(prompts.get, names)), "")
        for role, names in ROLE_NAMES.items()
        if not prompts.keys().isdisjoint(names)
    }
    return found if any(found.values()) else {}


def warn_of_pooling(name: str, pooling: Pooling) -> None:
    """Log that a model has another pooling than an encoder that takes only the transformer of it."""
    try:
        stated = _read(ModelFiles(name)).settings.get("pooling", pooling)
    except UserError:  # whatever is wrong there, the transformer could be loaded
        return
    if stated != pooling:
        log.warning("%s: its pipeline has pooling %s, not %s; model=encoder takes it.", name, stated, pooling)
