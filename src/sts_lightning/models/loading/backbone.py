"""Loading of transformer backbones: tensors only, dtype explicit, nothing left at random."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, get_args

import torch
import transformers
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForTextEncoding,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING

from sts_lightning.core.choices import Attention, DtypeName, Precision
from sts_lightning.core.errors import CheckpointError, ConfigError, UserError
from sts_lightning.core.hardware import local_gpu, multiplies_bfloat16
from sts_lightning.models.compute.budget import is_out_of_memory
from sts_lightning.models.encoding import Base
from sts_lightning.models.loading.checks import check_finite
from sts_lightning.models.loading.hub import OWN_FILE, ModelFiles, find, find_adapter, gated
from sts_lightning.models.loading.own_file import base_of, read_own
from sts_lightning.models.loading.quantization import check_fraction, quantization_config
from sts_lightning.models.text.template import BARE, set_post_processor

log = logging.getLogger(__name__)


DTYPES: dict[Precision, torch.dtype] = {
    "32-true": torch.float32,
    "bf16-true": torch.bfloat16,
    "16-true": torch.float16,
}
"""Dtype of the weights by precision of inference."""


def dtype_of(name: DtypeName) -> torch.dtype:
    """Return a dtype; ``auto`` is bfloat16 where the GPU, or without one the CPU, has fast products of it."""
    if name == "auto":
        device = "cuda:0" if torch.cuda.is_available() else "cpu"
        name = "bfloat16" if multiplies_bfloat16(device) else "float32"
    dtype: torch.dtype = getattr(torch, name)
    return dtype


NONDETERMINISTIC_ON_CUDA = frozenset(("gpt_oss", "mixtral", "qwen3_moe"))
"""Model types that PyTorch rejects on CUDA under ``deterministic=true``: their experts count by histc."""

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]


def load_backbone(base: Base, trust_remote_code: bool = False, device: str | None = None) -> Loaded:
    """Load a backbone, without pooling layer or language-model head, and its tokenizer.

    Of an encoder-decoder only the encoder is loaded; of an adapter its base, with the adapter merged into it.
    A packaged copy, if one is installed, takes precedence over the model hub (see `COPIES`). A model without
    safetensors files is read from ``pytorch_model.bin`` or its parts: plain tensors only, no code of a pickle
    is run.

    Args:
        base: The model, and how it is loaded.
        trust_remote_code: Whether to run code that comes with the model.
        device: Device that the weights are loaded to; by default the host, and of quantised ones the GPU of
            this process if there is one. Quantised ones have no copy in host memory.

    Raises:
        ValueError: The quantisation is unknown, or the model has no layer for it.
        ImportError: bitsandbytes is missing.
        ConfigError: The model cannot be found, has no such setting, or needs ``trust_remote_code``.
        CheckpointError: The files are broken, lack weights, hold more than tensors, or have no fitting
            tokenizer.
    """
    assert base.name is not None
    name, settings, quantized = base.name, dict(base.config), dict[str, Any]()
    if (folder := find_adapter(name)) is not None:
        return load_merged(base, folder, trust_remote_code, device)
    if base.quantization != "none":
        place = device or (local_gpu() if torch.cuda.is_available() else "cpu")
        quantized = {
            "quantization_config": quantization_config(base.quantization, dtype_of(base.dtype)),
            "device_map": {"": place},
        }
    source, options = find(name)
    if not name.startswith(source):
        log.info("%s: the packaged copy", name)
    options["trust_remote_code"] = trust_remote_code
    restrain_library()
    try:
        model_config = AutoConfig.from_pretrained(source, **options)
        configure(model_config, settings, name, trust_remote_code)
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        if not trust_remote_code:
            tokenizer.init_kwargs.pop("auto_map", None)
        model, report = class_of(model_config).from_pretrained(
            source,
            config=model_config,
            dtype=dtype_of(base.dtype),
            use_safetensors=None,  # pytorch_model.bin where there are none
            weights_only=True,
            output_loading_info=True,
            **quantized,
            **options,
        )
    except (UserError, ImportError):
        raise
    except Exception as error:  # each library has other errors for damaged files
        if is_out_of_memory(error):
            raise
        raise explain(name, error) from error
    backbone: Any = take_encoder(model, name)
    # Neither a pooler nor the decoder of an encoder-decoder is used.
    unused = ("pooler.", "decoder.") if getattr(model.config, "is_encoder_decoder", False) else ("pooler.",)
    used = _place(backbone, model)
    missing = sorted(
        key for key in report["missing_keys"] if key.startswith(used) and not key.startswith(unused)
    )
    if missing:
        raise CheckpointError(
            f"{name} lacks {len(missing)} weights of {type(backbone).__name__} ({', '.join(missing[:3])}, "
            "...); they would be random."
        )
    is_nomic = backbone.config.model_type == "nomic_bert"
    written_for = "nomic-embed-text-v1" if is_nomic else getattr(backbone, "written_for", None)
    further = [
        key for key in report["unexpected_keys"] if not key.startswith(("pooler.", "cls.", "lm_head."))
    ]
    if written_for and further:  # of later or other models of these names: biases, experts, norms
        raise CheckpointError(
            f"{name} has another architecture than {written_for}, with further weights "
            f"({', '.join(sorted(further)[:3])}, ...); choose another model."
        )
    if device is not None and base.quantization == "none":  # whoever tests the encoder computes there
        backbone.to(device)
    check_finite(backbone.named_parameters(), name, "model.name")
    prepare(backbone)
    set_attention(backbone, settings, name)
    check_vocabulary(tokenizer, backbone, name)
    if base.quantization != "none":
        check_fraction(backbone, base.quantization, name)
    bare = tokenizer.init_kwargs.pop(BARE, None)
    # A model folder of ours names its template, which is put around each sentence here: the tokenizer must
    # not do it too. Where another library has saved the model again, the tokenizer's tokens are all there is.
    if bare is not None and ModelFiles(name).path(OWN_FILE) is not None:
        set_post_processor(tokenizer, bare)
    return backbone, tokenizer


Loader = Callable[[Base, bool, str | None], Loaded]
"""Function with the arguments of `load_backbone`; a plan has one that reads no weights."""


def load_merged(adapter: Base, folder: Path, trust_remote_code: bool, device: str | None) -> Loaded:
    """Load the base of an adapter, with the adapter merged into it.

    The adapter of a run whose base was quantised is merged into the dequantised values that it was trained
    with, as the export format ``merged`` does.

    Args:
        adapter: The adapter, and how it is loaded; its quantisation must be ``none``.
        folder: Its folder.
        trust_remote_code: Whether to run code that comes with the base.
        device: See `load_backbone`.

    Raises:
        ValueError: The adapter does not fit the base.
        ConfigError: The adapter cannot be merged, is to be quantised, or its base cannot be loaded.
        CheckpointError: The adapter's files are broken, or do not fit the base.
    """
    if adapter.quantization != "none":
        raise ConfigError(
            f"model.quantization={adapter.quantization} with the adapter {adapter.name}: it is merged "
            "when it is loaded, and the result is not quantised.",
            key="model.quantization",
            hint="Set it to none, or export the run with --format merged and name that folder.",
        )
    from sts_lightning.models.loading.adapters import adapter_settings, add_adapter, load_adapter, merge

    settings, files = adapter_settings(folder), ModelFiles(str(folder))
    own = read_own(files)
    base = replace(base_of(files, own), dtype=adapter.dtype, config=adapter.config)
    backbone, tokenizer = load_backbone(base, trust_remote_code, device)
    floats = ((key, value) for key, value in backbone.named_parameters() if value.is_floating_point())
    # Quantised weights are not among them: they train once they are dequantised.
    frozen = {key for key, value in floats if not value.requires_grad}
    whole = add_adapter(backbone, settings)
    load_adapter(whole, folder)
    backbone = merge(whole)
    for key, value in backbone.named_parameters():  # the library freezes the base
        value.requires_grad_(key not in frozen)
    if own is None and (folder / "tokenizer_config.json").is_file():
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        check_vocabulary(tokenizer, backbone, str(folder))
    return backbone, tokenizer


def restrain_library() -> None:
    """Switch off the library's load report, which our checks replace, and its conversion of old formats.

    It would have a service convert them, and load what that proposes to the model's owner.
    """
    os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "true")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()


def configure(
    model_config: PreTrainedConfig, settings: dict[str, Any], name: str, trust_remote_code: bool
) -> None:
    """Set attributes of a model's configuration, and drop its references to code that is not trusted.

    Raises:
        ConfigError: The configuration has no such attribute, the model asks for a kernel from the hub, or
            there is no such implementation of attention.
    """
    if model_config.model_type == "nomic_bert" and not trust_remote_code:
        from sts_lightning.models.loading.nomic import check_config

        check_config(model_config, name)
    settings = {key: value for key, value in settings.items() if key not in NAMES}
    parts = (model_config, text_config(model_config))
    unknown = [key for key in settings if not any(hasattr(part, key) for part in parts)]
    if unknown:
        raise ConfigError(f"model.config: {name} has no setting {', '.join(unknown)}.")
    for key, value in settings.items():
        for part in parts:
            if hasattr(part, key):
                setattr(part, key, value)
    if trust_remote_code:
        return
    for part in parts:  # its references to code are not used here, but an export would contain them
        if hasattr(part, "auto_map"):
            del part.auto_map
    for key in ("_attn_implementation", "_experts_implementation"):  # now: a setting may name a kernel too
        kernel = getattr(model_config, key, None)
        if isinstance(kernel, str) and "/" in kernel:
            raise ConfigError(
                f"{name}: its config.json asks for the kernel {kernel}, which is code; allow it "
                "with model.trust_remote_code=true, or remove the entry.",
                key="model.name",
            )


def text_config(config: PreTrainedConfig) -> PreTrainedConfig:
    """Return the part of a configuration that is about text; that of a model of text alone is the whole."""
    if getattr(config, "is_encoder_decoder", False):  # there the library would return the decoder's
        return config
    part: PreTrainedConfig = config.get_text_config()
    return part


def prepare(backbone: Any) -> None:
    """Remove what an encoder does not use, and switch off what would change its results."""
    if backbone.config.model_type == "opt":
        from sts_lightning.models.loading.opt import number_positions

        number_positions(backbone)
    if getattr(backbone, "pooler", None) is not None:
        backbone.pooler = None
    never_repack(backbone)
    backbone.config.use_cache = False  # keys and values are only needed for generation


def never_repack(model: nn.Module) -> None:
    """Keep bitsandbytes from repacking weights at lower precision at their first use in evaluation on a CPU.

    It would do so in place, in several threads at once, and change the results of later training.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False  # type: ignore[assignment]


def explain(name: str, error: Exception) -> ConfigError | CheckpointError:
    """Translate a loading error of the library into one that names the remedy."""
    text = str(error).strip()
    if "trust_remote_code" in text:
        return ConfigError(
            f"{name} needs code that comes with the model; read it, then allow it with "
            "model.trust_remote_code=true."
        )
    if isinstance(error, UnpicklingError) or "Weights only load failed" in text:
        return CheckpointError(
            f"{name}: a file of its weights is damaged, or holds more than tensors. Such a pickle can run "
            "code, and is not read.",
            key="model.name",
            hint="Download it again, or choose a model with model.safetensors.",
        )
    if refused := gated(name, error):
        return refused
    needed = "config.json, model.safetensors (or pytorch_model.bin) and tokenizer files"
    if (Path(name) / "model" / OWN_FILE).is_file():
        hint = f"It is a run, whose model is {Path(name) / 'model'}; eval.py takes the run as ckpt."
    elif Path(name).is_dir():
        hint = f"One of its files is damaged or missing; a model is a folder with {needed}."
    else:
        hint = (
            f"It is a hub id, or a folder with {needed}. Check spelling, connection and HF_HUB_OFFLINE; a "
            "private model needs `hf auth login`."
        )
    reason = (text or type(error).__name__).partition("\n")[0].rstrip(".")
    return ConfigError(f"cannot load {name}: {reason}.", key="model.name", hint=hint)


KEY = "model.config.attn_implementation"
NAMES = ("attn_implementation", "_attn_implementation")
"""Names of the setting in transformers, as an argument and as an attribute of a model's configuration."""


def set_attention(backbone: PreTrainedModel, settings: Mapping[str, Any], name: str) -> None:
    """Give a backbone the implementation that the settings of its configuration ask for.

    Args:
        backbone: Model, changed in place.
        settings: Settings of the model's configuration.
        name: Name of the model, for the message.

    Raises:
        ConfigError: It is not in `Attention`, or transformers has no such implementation for this model.
    """
    for wanted in (settings[key] for key in NAMES if settings.get(key) is not None):
        if wanted in get_args(Attention):
            with suppress(ValueError):  # the model has no such implementation
                backbone.set_attn_implementation(wanted)
        if backbone.config._attn_implementation != wanted:
            raise ConfigError(
                f"{KEY}={wanted}: {type(backbone).__name__} ({name}) has no such implementation here; "
                f"{' and '.join(get_args(Attention))} are known.",
                key=KEY,
                hint="Leave it out: on a GPU, torch's sdpa itself runs a fused kernel, for causal models in "
                "half precision that of FlashAttention 2.",
            )


PLAIN_SENTENCE = "The small dog runs over the green hill."


def check_vocabulary(tokenizer: PreTrainedTokenizerBase, backbone: PreTrainedModel, name: str) -> None:
    """Reject a tokenizer that knows no words, or that has tokens for which the model has no embedding.

    Without tokenizer files the library builds an empty tokenizer, to which every token is unknown.
    Training with it would run without an error.

    Args:
        tokenizer: Tokenizer as loaded.
        backbone: Model as loaded.
        name: Hub id or folder, for the message.

    Raises:
        CheckpointError: A plain sentence has no known token, or the embedding table has no row for a token.
    """
    try:
        ids = set(tokenizer(PLAIN_SENTENCE, add_special_tokens=False)["input_ids"])
    except Exception:  # an empty vocabulary may lack even the token for unknown words
        ids = set()
    known = tokenizer.convert_ids_to_tokens(list(ids - {tokenizer.unk_token_id, *tokenizer.all_special_ids}))
    if not any(character.isalpha() for token in known for character in token):
        raise CheckpointError(
            f"{name}: the tokenizer knows no word of {PLAIN_SENTENCE!r}. Put the model's tokenizer files "
            "beside config.json: tokenizer.json, or the vocabulary (vocab.txt; vocab.json and merges.txt; "
            "tokenizer.model or spiece.model) with tokenizer_config.json."
        )
    rows: Any = backbone.get_input_embeddings().num_embeddings
    added = set(tokenizer.get_added_vocab().values()) - set(tokenizer.all_special_ids)
    # An added token may lack an embedding where no text contains it: Gemma 3's text models have no images.
    largest = max(set(tokenizer.get_vocab().values()) - added)
    if largest >= rows:
        token = tokenizer.convert_ids_to_tokens(largest)
        raise CheckpointError(
            f"{name}: the tokenizer's token {token!r} has id {largest}, but {type(backbone).__name__} has "
            f"{rows} embeddings. Use the tokenizer files that belong to the weights."
        )


def is_causal(backbone: PreTrainedModel) -> bool:
    """Return whether the model is causal: no token attends to later tokens."""
    flags = causal_flags(backbone)
    return bool(flags) and all(flags)


def causal_flags(backbone: PreTrainedModel) -> list[bool]:
    """Return ``is_causal`` of each attention layer that has it; some families (Bloom) do not.

    A decoder whose configuration states that it is not causal is bidirectional, whatever its layers say.
    """
    if getattr(backbone.config, "is_causal", None) is False:
        return [False]
    flags = [module.__dict__.get("is_causal") for module in backbone.modules()]
    return [flag for flag in flags if isinstance(flag, bool)]


SHARED_STATE = (
    "hf_quantizer",
    "is_quantized",
    "quantization_method",
    "is_loaded_in_4bit",
    "is_loaded_in_8bit",
)
"""Attributes that the library sets on a loaded model, and that its encoder needs too."""


def class_of(config: PreTrainedConfig) -> Any:
    """Choose the class of the encoder: T5's family has classes without a decoder, Jina's BERT one of ours.

    A folder that holds the encoder of an encoder-decoder alone, as ours do, names its class.

    Args:
        config: Configuration of the model. If such a class is used, ``is_encoder_decoder`` is set to False.

    Returns:
        A class with ``from_pretrained``.
    """
    if config.model_type == "bert" and getattr(config, "position_embedding_type", None) == "alibi":
        from sts_lightning.models.loading.jina import JinaBertModel  # BERT itself has no ALiBi

        return JinaBertModel
    if (half := _half_of(config)) is not None:
        return half
    known = type(config) in MODEL_FOR_TEXT_ENCODING_MAPPING
    model: Any = MODEL_FOR_TEXT_ENCODING_MAPPING[type(config)] if known else None
    if not known or not model.__name__.endswith("EncoderModel") or not hasattr(config, "num_hidden_layers"):
        return AutoModel  # a configuration of two halves (T5Gemma) does not describe the encoder alone
    config.is_encoder_decoder = False  # some of these classes do so themselves, others require it
    return AutoModelForTextEncoding


def _half_of(config: PreTrainedConfig) -> type[PreTrainedModel] | None:
    """Return the class that a configuration names if it is half of an encoder-decoder of transformers."""
    name = next(iter(getattr(config, "architectures", None) or ("",)))
    module = type(config).__module__
    if not name.endswith("Encoder") or not module.startswith("transformers.models."):
        return None
    found = getattr(import_module(module.replace(".configuration_", ".modeling_")), name, None)
    return found if isinstance(found, type) and issubclass(found, PreTrainedModel) else None


def take_encoder(model: PreTrainedModel, name: str) -> PreTrainedModel:
    """Take the part that reads text: an encoder-decoder's encoder, a multimodal model's text model.

    Any other model is returned as it is.

    Args:
        model: Model as loaded.
        name: Name of the model, for the message.

    Raises:
        ConfigError: The model is an encoder-decoder without an encoder of text.
    """
    encoder: Any = None
    if type(model) is _half_of(model.config):
        return model
    if getattr(model.config, "is_encoder_decoder", False):
        encoder = model.get_encoder()
        if encoder is model or not isinstance(encoder, PreTrainedModel):
            raise ConfigError(
                f"{name} is an encoder-decoder ({type(model).__name__}) whose encoder cannot be used alone; "
                "choose another model."
            )
    elif text_config(model.config) is not model.config:
        encoder = getattr(model, "language_model", None)
    if not isinstance(encoder, PreTrainedModel):
        return model
    for attribute in SHARED_STATE:
        if hasattr(model, attribute):
            setattr(encoder, attribute, getattr(model, attribute))
    return encoder


def _place(backbone: PreTrainedModel, model: PreTrainedModel) -> str:
    """Return the beginning of the names of a multimodal model's text weights; empty for any other model."""
    if getattr(model.config, "is_encoder_decoder", False):
        return ""
    return next(f"{name}." if name else "" for name, module in model.named_modules() if module is backbone)
