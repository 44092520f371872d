"""Encoders with the pipeline of a model: pooling, dense layers, normalisation, prompt, length."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from sts_lightning.choices import Quantization
from sts_lightning.errors import CheckpointError, ConfigError
from sts_lightning.models.adapter_folder import load_model
from sts_lightning.models.attention import is_causal
from sts_lightning.models.backbone import DtypeName
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.encoder_checks import OwnSettings
from sts_lightning.models.finite_weights import check_finite
from sts_lightning.models.limits import most_positions
from sts_lightning.models.model_files import ModelFiles
from sts_lightning.models.pipeline import Dense, Pipeline
from sts_lightning.models.pipeline_files import read_pipeline
from sts_lightning.models.pooling import Pooling
from sts_lightning.models.projection import Projection
from sts_lightning.models.template import MASK, SLOT
from sts_lightning.models.tokenize import SentenceTokenizer

log = logging.getLogger(__name__)

TRAINING_TOKENS = 256
"""Number of tokens at which training cuts a sentence by default, if the pipeline reads longer ones."""

UNLIMITED = 10**6
"""A tokenizer's ``model_max_length`` from which it means none."""


def from_pipeline(
    name: str,
    pooling: Pooling | None = None,
    max_length: int | None = None,
    limit: int | None = None,
    normalize: bool | None = None,
    projection: Projection | None = None,
    template: str | None = None,
    prompt_name: str | None = None,
    config: dict[str, Any] | None = None,
    trust_remote_code: bool = False,
    dtype: DtypeName = "float32",
    quantization: Quantization = "none",
    device: str | None = None,
    **settings: Unpack[OwnSettings],
) -> SentenceEncoder:
    """Load a model with its own pipeline, as a folder of sentence-transformers or of an export describes it.

    Read are ``modules.json`` with what it refers to, or the ``sts_lightning.json`` of an export. Each setting
    that is given takes precedence over the pipeline. A model without such a file gets mean pooling, or the
    last token if its attention layers state that they are causal (those of Bloom, XGLM and Mamba do not).

    Args:
        name: Local folder, also that of an adapter, or id on the model hub, optionally with ``@commit``.
        pooling: See `SentenceEncoder`; None for that of the pipeline, also for the arguments below.
        max_length: Maximum number of tokens of a sentence in training; by default that of the pipeline, but
            at most `TRAINING_TOKENS`.
        limit: The same in evaluation; by default that of the pipeline.
        normalize: Whether vectors are scaled to length 1.
        projection: ``none`` drops dense layers of the pipeline.
        template: Text with the slot ``{sentence}``; by default the pipeline's default prompt.
        prompt_name: Name of one of the pipeline's prompts.
        config: See `load_model`, also for the arguments below.
        trust_remote_code: Whether to run code that comes with the transformer; modules are never run.
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
    pipeline = read_pipeline(files)
    backbone, tokenizer = load_model(name, config, trust_remote_code, dtype, quantization, device)
    if pipeline is None:
        pipeline = Pipeline(f"{name}: no modules.json", "last_token" if is_causal(backbone) else "mean")
    if pipeline.lower_case:
        _check_lower_case(tokenizer, name)
    pooling = pooling or pipeline.pooling
    template = _template(pipeline, tokenizer, template, prompt_name, pooling)
    virtual = getattr(settings.get("adapter"), "num_virtual_tokens", None) or 0
    length = _longest(pipeline, backbone, tokenizer, template, settings.get("view_templates"), virtual)
    projector = _projector(files, pipeline, projection, backbone)
    settings.setdefault("layer", pipeline.layer)
    settings["bidirectional_layers"] = (
        settings.get("bidirectional_layers", 0) or pipeline.bidirectional_layers
    )
    special = tokenizer.num_special_tokens_to_add()
    if length is not None and template is None and length <= special:
        raise ConfigError(
            f"{pipeline.source}: a row has at most {length} tokens, and the tokenizer adds {special} by "
            "itself, which leaves none for the sentence.",
            key="model.name",
            hint="Set max_seq_length in sentence_bert_config.json to more, or repair the tokenizer.",
        )
    if length is not None and length < 3:
        raise ConfigError(
            f"{pipeline.source}: the prompt {template!r} leaves {max(length, 0)} tokens of a row for the "
            "sentence.",
            key="prompt.template",
            hint="Choose a shorter one.",
        )
    if max_length is None:
        max_length = TRAINING_TOKENS if length is None else min(TRAINING_TOKENS, length)
    encoder = SentenceEncoder(
        backbone,
        tokenizer,
        pooling=pooling,
        max_length=max_length,
        template=template,
        projection="always" if projector is not None else projection or "none",
        limit=length if limit is None else limit,
        normalize=pipeline.normalize if normalize is None else normalize,
        projector=projector,
        **settings,
    )
    encoder.text_edit = pipeline.text_edit
    _report(encoder, pipeline)
    return encoder


def _template(
    pipeline: Pipeline,
    tokenizer: PreTrainedTokenizerBase,
    template: str | None,
    prompt_name: str | None,
    pooling: Pooling,
) -> str | None:
    """Return the template of the settings, or of the pipeline.

    Raises:
        ConfigError: The prompt is unknown, comes beside a template, or is not pooled.
    """
    own = pipeline.template
    if own is not None and pooling == "mask_token" and tokenizer.mask_token is not None:
        own = own.replace(tokenizer.mask_token, MASK)  # an export contains the token itself
    given = template if template is not None else own
    if prompt_name is None and given is not None:
        return given
    known = ", ".join(sorted(pipeline.prompts)) or "none"
    chosen = prompt_name if prompt_name is not None else pipeline.default_prompt
    if chosen is None:
        return None
    if given is not None:
        raise ConfigError(
            f"model.prompt_name={prompt_name} and a template exclude each other.",
            key="model.prompt_name",
            hint="Set one of model.prompt_name and prompt.template.",
        )
    if chosen not in pipeline.prompts:
        raise ConfigError(
            f"model.prompt_name={chosen} is not among the prompts of {pipeline.source} ({known}).",
            key="model.prompt_name",
        )
    text = pipeline.prompts[chosen]
    if not text:
        return None
    if SLOT in text or MASK in text:
        raise ConfigError(
            f"the prompt {text!r} of {pipeline.source} contains {SLOT} or {MASK}, which have a meaning here.",
            key="prompt.template",
            hint="Set prompt.template.",
        )
    if not pipeline.include_prompt and pooling != "last_token":
        raise ConfigError(
            f"{pipeline.source} leaves the tokens of the prompt {text!r} out of the pooling, which has no "
            "equivalent here.",
            key="prompt.template",
            hint="prompt.template='{sentence}' uses no prompt.",
        )
    return text + SLOT


def _longest(
    pipeline: Pipeline,
    backbone: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    template: str | None,
    view_templates: Sequence[str] | None,
    virtual: int,
) -> int | None:
    """Return the maximum number of tokens of a sentence; None if there is no limit."""
    added = SentenceTokenizer(tokenizer, UNLIMITED, template, view_templates).added
    positions = most_positions(backbone)
    own = tokenizer.model_max_length if tokenizer.model_max_length < UNLIMITED else None
    rows = [pipeline.row_tokens, own, None if positions is None else positions - virtual]
    known = [count - added for count in rows if count is not None]
    known += [pipeline.sentence_tokens] if pipeline.sentence_tokens is not None else []
    return min(known, default=None)


def _projector(
    files: ModelFiles, pipeline: Pipeline, projection: Projection | None, backbone: PreTrainedModel
) -> nn.Sequential | None:
    """Return the trained layers on top, with their activations; None if there are none, or they are dropped.

    Raises:
        ConfigError: New layers are asked for in their place.
        CheckpointError: Their weights are missing, or do not fit.
    """
    if not pipeline.dense or projection == "none":
        return None
    if projection is not None:
        raise ConfigError(
            f"model.projection={projection} would put new layers in place of those of {pipeline.source}.",
            key="model.projection",
            hint="Leave it null to keep them, or set it to none to drop them.",
        )
    layers: list[nn.Module] = []
    size: int = backbone.config.hidden_size
    for dense in pipeline.dense:
        if dense.inputs != size:
            raise CheckpointError(
                f"{files.name}: {dense.path} has {dense.inputs} inputs for a vector of {size}.",
                key="model.name",
            )
        size = dense.outputs
        layers += [_linear(files, dense, backbone.device), getattr(nn, dense.activation)()]
    return nn.Sequential(*layers)


def _linear(files: ModelFiles, dense: Dense, device: torch.device) -> nn.Linear:
    """Read one dense layer; on the meta device it has no weights."""
    if device.type == "meta":
        return nn.Linear(dense.inputs, dense.outputs, dense.bias, device=device)
    path = files.path(f"{dense.path}/model.safetensors")
    if path is None:
        raise CheckpointError(
            f"{files.name} has no {dense.path}/model.safetensors; other formats are not loaded.",
            key="model.name",
            hint="Save the model again with a current version of sentence-transformers.",
        )
    linear = nn.Linear(dense.inputs, dense.outputs, dense.bias, device="meta")
    wanted = {f"linear.{key}": value.shape for key, value in linear.state_dict().items()}
    found = _read(path)
    if {key: value.shape for key, value in found.items()} != wanted:
        raise CheckpointError(f"{path} does not hold the weights that its config.json describes.")
    check_finite(found.items(), str(path), "model.name")
    weights = {key.removeprefix("linear."): value.float() for key, value in found.items()}
    linear.load_state_dict(weights, assign=True)
    return linear.requires_grad_()


def _read(path: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(path)
    except Exception as error:  # safetensors has an error class of its own in each version
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def _check_lower_case(tokenizer: PreTrainedTokenizerBase, name: str) -> None:
    """Reject a pipeline that lower-cases texts before a tokenizer that does not."""
    text = "A Dog in PARIS, \u00c4RGER"
    if tokenizer(text)["input_ids"] != tokenizer(text.lower())["input_ids"]:
        raise ConfigError(
            f"the pipeline of {name} has do_lower_case=true with a tokenizer that keeps capitals, which has "
            "no equivalent here.",
            key="model.name",
            hint="Add the normalizer Lowercase to its tokenizer.json, and set do_lower_case to false.",
        )


def _report(encoder: SentenceEncoder, pipeline: Pipeline) -> None:
    """Log in one line what was decided."""
    parts = [f"pooling {encoder.pooling}", f"at most {encoder.tokenizer.limit} tokens"]
    parts += [f"template {encoder.tokenizer.template!r}"] if encoder.tokenizer.template else []
    parts += [f"{len(pipeline.dense)} dense"] if encoder.projection == "always" else []
    parts += ["length 1"] if encoder.normalize else []
    log.info("%s: %s", pipeline.source, ", ".join(parts))
    kind = pipeline.similarity
    # Of vectors of length 1 the dot product is the cosine.
    if kind != "cosine" and not (kind == "dot" and encoder.normalize):
        what = {
            "dot": "the dot product",
            "euclidean": "Euclidean distance",
            "manhattan": "Manhattan distance",
        }
        log.warning(
            "%s: the model was trained for %s (similarity_fn_name); scores here are of the cosine.",
            pipeline.source,
            what.get(kind, kind),
        )
