"""Model folders: an encoder in the layout of sentence-transformers, and one file for the rest.

==========================  ===========================================================================
modules.json, N_*/          the modules of sentence-transformers: pooling, dense layers, normalisation
config.json, *.safetensors  weights of the backbone, all of them
adapter_config.json, ...    an adapter and the name of its base; `base/` where that has no name
tokenizer.json, ...         with the template, if a tokenizer can hold it
sts_lightning.json          `EncodingConfig`, the base, the step, and what the libraries cannot read of it
training.safetensors        weights that training has and evaluation does not: a loss head, a projection
==========================  ===========================================================================

A folder is data: whoever reads it executes nothing in it. sentence-transformers computes the same vectors
from it wherever its format can say them. Where it cannot, ``modules.json`` names a module that it does not
have, so that it refuses the folder instead of computing others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import MODEL_MAPPING, PreTrainedModel

from sts_lightning.core.choices import Precision, Role
from sts_lightning.core.errors import CheckpointError, ConfigError, StorageError
from sts_lightning.core.files import new_folder
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.encoding import Base, EncodingConfig
from sts_lightning.models.loading.backbone import restrain_library
from sts_lightning.models.loading.checks import copy_weights
from sts_lightning.models.loading.hub import OWN_FILE, SETTINGS, ModelFiles
from sts_lightning.models.loading.own_file import BASE, TRAINING, read_own, read_training
from sts_lightning.models.loading.quantization import forget_reading
from sts_lightning.models.pooling import Pooling, width
from sts_lightning.models.text.template import SLOT
from sts_lightning.models.text.tokenizer_files import save_tokenizer, save_with_template

SCALE = ("r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern")
"""Settings of LoRA that decide the factor of its weights."""

THEIRS = "sentence_transformers.models"
"""Where all versions of sentence-transformers have the modules."""

OURS = "sts_lightning.load"
"""Module of a folder that sentence-transformers is to refuse."""

POOLING: dict[Pooling, str] = {"cls": "cls_token", "mean": "mean_tokens", "last_token": "lasttoken"}
"""Pooling mode of sentence-transformers by ours."""


def write_model(
    encoder: SentenceEncoder,
    folder: Path,
    training: Mapping[str, Tensor] = {},
    step: int | None = None,
    precision: Precision | None = None,
) -> None:
    """Write an encoder as a model folder, which appears complete or not at all, and replaces an earlier one.

    Args:
        encoder: The encoder, which is left as it is.
        folder: Folder.
        training: Weights of a loss head, by their names in the loss.
        step: Optimiser step of the weights.
        precision: Precision in which they are meant to be used; None for that of the weights.

    Raises:
        ConfigError: The model cannot be stored as a folder.
        StorageError: The weights cannot be written.
    """
    restrain_library()
    with new_folder(folder, replace=True) as inside:
        try:
            described = write_parts(encoder, inside)
            kept = {f"loss.{name}": value for name, value in training.items()}
            if encoder.config.projection not in ("none", "always"):
                kept |= {f"projector.{name}": value for name, value in encoder.projector.state_dict().items()}
            if kept:
                save_file({name: _plain(value) for name, value in kept.items()}, inside / TRAINING)
        except SafetensorError as error:  # safetensors' error for a failed write, as on a full disk
            raise StorageError(f"{folder}: its weights cannot be written ({error}).") from error
        write_json(inside / OWN_FILE, described | {"step": step, "precision": precision})


def load_weights(encoder: SentenceEncoder, folder: Path) -> dict[str, Tensor]:
    """Load the weights of a model folder into an encoder of the same model.

    Args:
        encoder: The encoder, with a new adapter if the folder has an adapter.
        folder: Model folder, as `write_model` writes it.

    Returns:
        The weights of the loss head, by their names in the loss; empty if it has none.

    Raises:
        CheckpointError: The folder is of another model or adapter, or its files are missing or broken.
    """
    from sts_lightning.models.loading.pipeline import read_model, read_projector  # few runs start from one

    files = ModelFiles(str(folder))
    own = read_own(files)
    ours, theirs = encoder.base or Base(), Base() if own is None else own.base
    if theirs.name != ours.name:
        raise CheckpointError(
            f"{folder} was trained from model {theirs.name}, not {ours.name}; choose the same model."
        )
    adapted = hasattr(encoder.backbone, "peft_config")
    if adapted != (folder / SETTINGS).is_file():
        has = "no adapter" if adapted else "an adapter"
        raise CheckpointError(f"{folder} was trained with {has}; leave model.adapter as it was.")
    if adapted:  # weights of the same shapes mean others under another scale
        from sts_lightning.models.loading.adapters import adapter_settings, load_adapter  # peft is slow

        stored, new = adapter_settings(folder), encoder.backbone.peft_config["default"]
        for name in SCALE:
            was, given = getattr(stored, name, None), getattr(new, name, None)
            if was != given:
                raise CheckpointError(
                    f"{folder} was trained with another adapter ({name}={was}, not {given}); "
                    "leave model.adapter as it was."
                )
    with torch.random.fork_rng(devices=[]):  # the library may draw weights before it reads them
        if adapted:
            load_adapter(encoder.backbone, folder)
        elif not refers_to_base(encoder):
            stored, _ = read_model(str(folder), hasattr(encoder.plain_backbone.config, "auto_map"))
            copy_weights(stored.plain_backbone.state_dict(), encoder.plain_backbone, str(folder))
    if encoder.config.projection == "always":
        projector = read_projector(files)
        copy_weights({} if projector is None else projector.state_dict(), encoder.projector, str(folder))
    elif encoder.config.projection != "none":
        copy_weights(read_training(files, "projector."), encoder.projector, str(folder))
    return read_training(files, "loss.")


def step_of(folder: Path) -> int | None:
    """Return the optimiser step of the weights in a model folder; None if it is not known."""
    own = read_own(ModelFiles(str(folder)))
    return None if own is None else own.step


def check_writable(encoder: SentenceEncoder) -> None:
    """Reject a model that no folder can hold, before it is trained.

    Raises:
        ConfigError: It is an average of word vectors of a text file.
    """
    if hasattr(encoder.tokenizer.tokenizer, "known"):  # words of a file
        raise ConfigError(
            "word vectors of a text file leave out unknown words, which no model folder can say; "
            "eval.py scores them, and training needs another model.",
            key="model",
        )


def write_parts(encoder: SentenceEncoder, folder: Path) -> dict[str, Any]:
    """Write weights, tokenizer and modules, and return the content of `OWN_FILE`."""
    reason = unsayable(encoder)
    if (encoder.base or Base()).name is None and refers_to_base(encoder):
        save_base(encoder, folder / BASE)
        reason = reason or "its base has no name"
    save_weights(encoder, folder)
    prompts, of_tokenizer = save_text(encoder, folder)
    reason = reason or of_tokenizer
    write_modules(encoder, folder, prompts, reason)
    return describe(encoder, reason)


def describe(encoder: SentenceEncoder, reason: str | None) -> dict[str, Any]:
    """Return the content of `OWN_FILE`; ``reason`` is why sentence-transformers cannot read the folder."""
    base = encoder.base or Base()
    return {
        "version": version("sts-lightning"),
        "encoding": encoder.config.as_json(),
        "base": asdict(base) | {"config": dict(base.config)},
        "refused": reason,
    }


def refers_to_base(encoder: SentenceEncoder) -> bool:
    """Return whether a folder names the base instead of holding its weights: adapters, quantised weights."""
    return hasattr(encoder.backbone, "peft_config") or getattr(encoder.plain_backbone, "is_quantized", False)


def save_weights(encoder: SentenceEncoder, folder: Path) -> None:
    """Write the weights of the backbone, or of its adapter alone."""
    backbone = encoder.plain_backbone
    if is_static(backbone):
        embeddings: Any = backbone.get_input_embeddings()
        table = embeddings.weight[:-1]  # the last row is that of padding
        save_file({"embedding.weight": _plain(table)}, folder / "model.safetensors")
    elif hasattr(encoder.backbone, "peft_config"):
        encoder.backbone.save_pretrained(str(folder), save_embedding_layers=False)
        (folder / "README.md").unlink(missing_ok=True)  # of the library, about the adapter alone
        name, _, revision = ((encoder.base or Base()).name or BASE).partition("@")
        settings = json.loads((folder / SETTINGS).read_text("utf-8"))
        settings |= {"base_model_name_or_path": name, "revision": revision or None, "inference_mode": True}
        write_json(folder / SETTINGS, settings)
    elif not refers_to_base(encoder):
        backbone.save_pretrained(folder)


def save_base(encoder: SentenceEncoder, folder: Path) -> None:
    """Write the backbone without its adapter."""
    forget_reading(encoder.plain_backbone)
    encoder.plain_backbone.save_pretrained(folder)
    path = folder / "model.safetensors"
    weights = {
        name.replace(".base_layer.", "."): value
        for name, value in load_file(path).items()
        if ".lora_" not in name
    }
    save_file(weights, path, {"format": "pt"})
    encoder.tokenizer.tokenizer.save_pretrained(folder)


def save_text(encoder: SentenceEncoder, folder: Path) -> tuple[dict[str, str], str | None]:
    """Write the tokenizer, with the template where it can be a part of it.

    Returns:
        Prompts of sentence-transformers by name, and why it cannot do with the texts what the encoder does.
    """
    config, rows, prompts = encoder.config, encoder.tokenizer, {}
    template = rows.template
    if rows.roles:  # in the tokenizer the template would be beside a prompt too
        symmetric = (template or SLOT).removesuffix(SLOT)
        named = {role: rows.prefix_of(role) for role in get_args(Role)}
        prompts = {role: symmetric if prefix is None else prefix for role, prefix in named.items()}
        if template is not None and symmetric not in prompts.values():
            prompts["default"] = symmetric
    reason = None
    if config.text_edit != "none":
        reason = f"text_edit={config.text_edit} changes sentences."
    elif template is not None and not prompts and config.pooling != "mask_token":
        views = (rows.view_templates or [])[:2]
        if len(set(views)) == 2 and all(text.endswith(SLOT) for text in (template, *views)):
            pairs = zip(("query", "document"), (text.removesuffix(SLOT) for text in views), strict=True)
            prompts = dict(pairs)
            prompts |= {} if template in views else {"default": template.removesuffix(SLOT)}
        else:
            try:
                save_with_template(rows, folder)
                return {}, None
            except ConfigError as error:
                prefix, suffix = template.split(SLOT)
                if suffix:
                    reason = str(error)
                else:  # under these names the prompt is that of encode_query and encode_document too
                    prompts = dict.fromkeys(("query", "document"), prefix)
    save_tokenizer(rows, folder)
    return prompts, reason


def unsayable(encoder: SentenceEncoder) -> str | None:
    """Return the settings or the architecture that sentence-transformers has no words for."""
    config, backbone, base = encoder.config, encoder.plain_backbone, encoder.base or Base()
    if config.pooling == "mask_token":
        return "the library has no pooling of a mask token."
    if changed := beyond_library(config):
        return " ".join(f"{name}={value}" for name, value in changed.items())
    adapter = getattr(encoder.backbone, "peft_config", {}).get("default")
    if adapter is not None and adapter.is_prompt_learning:
        return "a trained prefix"
    if base.quantization != "none" and refers_to_base(encoder):
        return f"a base in {base.quantization}"
    if only_ours(backbone):
        return f"{type(backbone).__name__}, an architecture that transformers lacks or has beside a decoder"
    return None


SAYABLE = (
    *("pooling", "template", "query", "document", "view_templates", "denoise", "denoise_evaluation"),
    *("projection", "normalize", "truncate_dim", "text_edit", "max_length", "evaluation_length"),
    *("limit", "row_limit"),
)
"""Settings that a folder of sentence-transformers can say, if need be with code."""


def beyond_library(config: EncodingConfig) -> dict[str, Any]:
    """Return the settings that no folder of sentence-transformers can say."""
    changed = config.changed(*SAYABLE) | ({"denoise_evaluation": True} if config.subtracts else {})
    return changed | ({"pooling": config.pooling} if config.pooling == "first_last_mean" else {})


def only_ours(backbone: PreTrainedModel) -> bool:
    """Return whether transformers lacks an architecture, or has it only as half of an encoder-decoder."""
    if is_static(backbone):
        return False
    unknown = type(backbone.config) not in MODEL_MAPPING and not hasattr(backbone.config, "auto_map")
    half = getattr(backbone.config, "is_encoder_decoder", False)
    own = type(backbone).__module__.startswith("sts_lightning.")
    return own or unknown or half


def is_static(backbone: PreTrainedModel) -> bool:
    """Return whether a model is a table of static embeddings."""
    return backbone.config.model_type == "static_embeddings"


def write_modules(
    encoder: SentenceEncoder, folder: Path, prompts: Mapping[str, str], reason: str | None
) -> None:
    """Write the modules of sentence-transformers, or the one that it refuses."""
    config, rows = encoder.config, encoder.tokenizer
    dense = list(encoder.projector) if config.projection == "always" else []
    mode = POOLING.get(config.pooling, "mean_tokens")
    pooling: dict[str, Any] = {
        "word_embedding_dimension": width(encoder.plain_backbone.config),
        **{f"pooling_mode_{each}": each == mode for each in POOLING.values()},
    }
    kinds: list[tuple[str, dict[str, Any] | None, Any]] = [("StaticEmbedding", None, None)]
    if not is_static(encoder.plain_backbone):
        kinds = [("Transformer", None, None), ("Pooling", pooling, None)]
        lengths = {"max_seq_length": rows.row_tokens, "do_lower_case": False}
        write_json(folder / "sentence_bert_config.json", lengths)
    kinds += [("Dense", _dense(*pair), pair[0]) for pair in zip(dense[::2], dense[1::2], strict=True)]
    kinds += [("Normalize", None, None)] * config.normalize
    modules = []
    for number, (kind, settings, linear) in enumerate(kinds):
        path = "" if number == 0 else f"{number}_{kind}"
        modules.append({"idx": number, "name": str(number), "path": path, "type": f"{THEIRS}.{kind}"})
        (folder / path).mkdir(exist_ok=True)
        if settings is not None:
            write_json(folder / path / "config.json", settings)
        if linear is not None:
            weights = {f"linear.{key}": _plain(value) for key, value in linear.state_dict().items()}
            save_file(weights, folder / path / "model.safetensors")
    if reason is not None:
        modules[0]["type"] = OURS
    write_json(folder / "modules.json", modules)
    default = next((key for key in prompts if prompts[key] + SLOT == rows.template), None)
    whole: dict[str, Any] = {
        "prompts": dict(prompts),
        "default_prompt_name": default,
        "similarity_fn_name": "cosine",
    }
    whole |= {} if config.truncate_dim is None else {"truncate_dim": config.truncate_dim}
    write_json(folder / "config_sentence_transformers.json", whole)


def _dense(linear: Any, activation: nn.Module) -> dict[str, Any]:
    cls = type(activation)
    return {
        "in_features": linear.in_features,
        "out_features": linear.out_features,
        "bias": linear.bias is not None,
        "activation_function": f"{cls.__module__}.{cls.__qualname__}",
    }


def _plain(value: Tensor) -> Tensor:
    return value.detach().to("cpu", copy=True).contiguous()


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file as people read it."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
