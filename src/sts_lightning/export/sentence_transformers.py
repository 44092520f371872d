"""Export of an encoder for the library sentence-transformers."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from pathlib import Path
from typing import Any, get_args

from torch import nn

from sts_lightning.core.choices import Role
from sts_lightning.core.errors import ConfigError
from sts_lightning.export.merged import save_tokenizer, write_merged
from sts_lightning.export.template import save_with_template
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.pooling import Pooling, width
from sts_lightning.models.text.template import SLOT

log = logging.getLogger(__name__)


def write_sentence_transformers(encoder: SentenceEncoder, folder: Path, name: str) -> None:
    """Write an encoder as a transformer, a pooling and, with a projection, dense modules.

    A template is part of the tokenizer, or else, if it ends with the sentence, the default prompt. Where
    those of the first two views differ and end so too, they are the prompts ``query`` and ``document``. Where
    it can be neither, or sentences are edited, the transformer is a `TemplateTransformer`. Its source file is
    copied into the folder, which thus loads without this project, but with ``trust_remote_code=True`` alone.
    Prompts by role are the prompts ``query`` and ``document``, and the template the default prompt then.

    Args:
        encoder: Encoder; it must not be used afterwards, since its backbone is changed in place.
        folder: Output folder, empty.
        name: Name of the base model, which this format does not store.

    Raises:
        ConfigError: The library is not installed, or has no equivalent of a setting of the encoder.
    """
    try:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.base.modules import Dense, Normalize, Transformer
        from sentence_transformers.sentence_transformer.modules import Pooling as PoolingModule
    except ImportError as error:
        raise ConfigError(
            "--format sentence-transformers needs sentence-transformers: pip install 'sts-lightning[st]'."
        ) from error
    from sts_lightning.export import template_transformer

    _check_representable(encoder)
    tokenizer = encoder.tokenizer
    # With one, sentence-transformers 6 puts each plain sentence into a message of a chat.
    tokenizer.tokenizer.chat_template = None
    with tempfile.TemporaryDirectory() as merged_folder:
        write_merged(encoder, Path(merged_folder), name)
        prompts, reason = _include_template(encoder, Path(merged_folder))
        included = tokenizer.template is not None and reason is None and not prompts
        if reason is None:
            first: nn.Module = Transformer(merged_folder, max_seq_length=tokenizer.row_tokens)
        else:
            log.warning("the folder needs code, and so trust_remote_code=True: %s", reason)
            row_length = tokenizer.row_length(tokenizer.template, tokenizer.evaluation_length)
            first = template_transformer.TemplateTransformer(
                merged_folder,
                max_seq_length=row_length,
                template="{sentence}" if prompts else tokenizer.template or "{sentence}",
                sentence_tokens=tokenizer.evaluation_length if row_length is None else None,
                edit=encoder.text_edit,
                read_mask=encoder.pooling == "mask_token",
            )
        size = width(encoder.plain_backbone.config)
        modules = [first, PoolingModule(size, POOLING[encoder.pooling])]
        layers: list[Any] = list(encoder.projector) if encoder.projection == "always" else []
        for linear, activation in zip(layers[::2], layers[1::2], strict=True):
            dense = Dense(
                linear.in_features,
                linear.out_features,
                linear.bias is not None,
                activation_function=activation,
            )
            dense.linear.load_state_dict(linear.state_dict())
            modules.append(dense)
        if encoder.normalize:
            modules.append(Normalize())
        model = SentenceTransformer(
            modules=modules,
            device="cpu",
            prompts=prompts,
            default_prompt_name=next(
                (key for key in prompts if prompts[key] + SLOT == tokenizer.template), None
            ),
            similarity_fn_name="cosine",
            truncate_dim=encoder.truncate_dim,
        )
        model.model_card_data.local_files_only = True  # or the card would ask the hub for the base model
        model.save(str(folder))
        # As they were compared: the library would name a class that only transformers 5 has.
        for name in ("tokenizer.json", "tokenizer_config.json") if included else ():
            shutil.copy(Path(merged_folder, name), folder)
    if isinstance(first, template_transformer.TemplateTransformer):
        _add_source(folder, Path(template_transformer.__file__), type(first).__name__)


def _include_template(encoder: SentenceEncoder, folder: Path) -> tuple[dict[str, str], str | None]:
    """Make the template part of the tokenizer in a folder, or a prompt, or say why it is neither.

    Returns:
        Prompts of the library by name, and why the template needs code.
    """
    template, prompts = encoder.tokenizer.template, {}
    if encoder.tokenizer.roles:  # in the tokenizer the template would be beside a prompt too
        symmetric = (template or SLOT).removesuffix(SLOT)
        named = {role: encoder.tokenizer.prefix_of(role) for role in get_args(Role)}
        prompts = {role: symmetric if prefix is None else prefix for role, prefix in named.items()}
        if template is not None and symmetric not in prompts.values():
            prompts["default"] = symmetric
    if encoder.text_edit != "none":
        return prompts, f"text_edit={encoder.text_edit} changes sentences."
    if prompts:
        return prompts, None
    if encoder.pooling == "mask_token":
        return {}, "the library has no pooling of a mask token."
    if template is None:
        return {}, None
    views = (encoder.tokenizer.view_templates or [])[:2]
    if len(set(views)) == 2 and all(text.endswith(SLOT) for text in (template, *views)):
        roles = dict(zip(("query", "document"), (text.removesuffix(SLOT) for text in views), strict=True))
        return roles if template in views else roles | {"default": template.removesuffix(SLOT)}, None
    try:
        save_with_template(encoder.tokenizer, folder)
    except ConfigError as error:
        save_tokenizer(encoder, folder)
        prefix, suffix = template.split(SLOT)
        # Under these names the prompt is that of encode_query and encode_document too.
        return ({}, str(error)) if suffix else (dict.fromkeys(("query", "document"), prefix), None)
    return {}, None


POOLING: dict[Pooling, str] = {
    "cls": "cls",
    "mean": "mean",
    "last_token": "lasttoken",
    "mask_token": "mean",  # TemplateTransformer leaves only the mask token visible to it
}
"""Pooling mode of the library by that of the encoder."""


def _check_representable(encoder: SentenceEncoder) -> None:
    """Reject an encoder whose vectors the library cannot compute."""
    settings = {
        "model.pooling=first_last_mean": encoder.pooling == "first_last_mean",
        f"prompt.layer={encoder.layer}": encoder.layer != -1,
        "prompt.denoise_evaluation=true": encoder.denoise_evaluation,
        f"model.bidirectional_layers={encoder.bidirectional_layers}": encoder.bidirectional_layers != 0,
    }
    if wrong := ", ".join(setting for setting, is_set in settings.items() if is_set):
        raise ConfigError(f"sentence-transformers cannot represent {wrong}; use --format merged.")


def _add_source(folder: Path, source: Path, class_name: str) -> None:
    """Copy a module's source file into a saved model, and make its class that of the first module."""
    shutil.copy(source, folder / source.name)
    path = folder / "modules.json"
    modules = json.loads(path.read_text("utf-8"))
    modules[0]["type"] = f"{source.stem}.{class_name}"  # else the name of the class in this project
    path.write_text(json.dumps(modules, indent=2) + "\n", "utf-8")
