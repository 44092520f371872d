"""The pipeline of a folder of sentence-transformers.

Only JSON is read: a folder names classes by text, and nothing that it names is imported.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, get_args

from sts_lightning.choices import TextEdit
from sts_lightning.errors import CheckpointError, ConfigError
from sts_lightning.models.model_files import ModelFiles
from sts_lightning.models.pipeline import Dense, Pipeline
from sts_lightning.models.pooling import Pooling
from sts_lightning.models.template import SLOT

POOLINGS: dict[str, Pooling] = {"cls": "cls", "mean": "mean", "lasttoken": "last_token"}
"""Pooling by the library's name of its mode; the other modes have no equivalent here."""

LEGACY_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Mode by its flag in folders of older versions."""

ACTIVATIONS = ("GELU", "Identity", "ReLU", "SiLU", "Sigmoid", "Tanh")
"""Classes of torch.nn without arguments that a dense layer may have as its activation."""

NEUTRAL: dict[str, Any] = {
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings",
    "processing_kwargs": {},
    "query_length": None,
    "document_length": None,
    "query_expansion": None,
    "tokenizer_name_or_path": None,
}
"""Values of the transformer module's settings under which it is the plain model."""

WITHOUT_EFFECT = ("unpad_inputs", "backend")
"""Settings of the transformer module that change no vector."""

LOADING = ("model_args", "tokenizer_args", "config_args", "model_kwargs", "processor_kwargs", "config_kwargs")
"""Arguments of the library's loaders in the transformer module's settings."""

LOADING_WITHOUT_EFFECT = {
    "torch_dtype",
    "dtype",
    "attn_implementation",
    "trust_remote_code",
    "add_pooling_layer",
}
"""Those of `LOADING` that change no vector here: dtype and consent are settings of the model."""


def read_modules(files: ModelFiles, modules: Any) -> Pipeline:
    """Read the pipeline of a model that lists its modules.

    Args:
        files: Files of the model.
        modules: Contents of ``modules.json``.

    Raises:
        ConfigError: A module or a setting has no equivalent here; nothing is approximated.
        CheckpointError: A file is broken.
    """
    return _Reader(files).read(modules)


class _Reader:
    """Modules of one model, read in their order."""

    def __init__(self, files: ModelFiles) -> None:
        self.files = files

    def reject(self, part: str, hint: str = "Choose another model.") -> ConfigError:
        return ConfigError(
            f"the pipeline of {self.files.name} has {part}, which has no equivalent here.",
            key="model.name",
            hint=hint,
        )

    def read(self, modules: Any) -> Pipeline:
        kinds = self._kinds(modules)
        names = [kind for kind, _ in kinds]
        order = re.fullmatch(r"Transformer,Pooling,(Dense,)*(Normalize,)?", "".join(f"{n}," for n in names))
        if order is None:
            raise self.reject(
                f"the modules {', '.join(names)}",
                "Transformer, Pooling, Dense and Normalize are read, in this order; model=bert_base with "
                "this model.name takes the transformer alone, with a pooling of your choice.",
            )
        pipeline = self._transformer(kinds[0][1])
        pipeline = self._pooling(pipeline, kinds[1][1])
        pipeline = self._prompts(pipeline)
        dense = tuple(self._dense(path) for kind, path in kinds if kind == "Dense")
        return replace(pipeline, dense=dense, normalize=self._normalize(kinds))

    def _kinds(self, modules: Any) -> list[tuple[str, str]]:
        """Return the class name and folder of each module."""
        kinds = []
        for module in modules if isinstance(modules, list) else [None]:
            kind, path = (module.get(key) if isinstance(module, dict) else None for key in ("type", "path"))
            if not isinstance(kind, str) or not isinstance(path, str) or ".." in PurePosixPath(path).parts:
                raise CheckpointError(f"{self.files.name}: modules.json is broken.", key="model.name")
            if PurePosixPath(path).is_absolute():
                raise CheckpointError(f"{self.files.name}: modules.json leads elsewhere.", key="model.name")
            own = (
                kind.startswith("sentence_transformers.")
                or kind == "template_transformer.TemplateTransformer"
            )
            name = kind.rpartition(".")[2]
            kinds.append((name.removeprefix("Template") if own else kind, path))
        return kinds

    def _transformer(self, path: str) -> Pipeline:
        if path:
            raise self.reject(
                f"its transformer in the sub-folder {path}",
                f"Set model.name to that folder to take the transformer alone, or save the model again with "
                f"sentence-transformers: SentenceTransformer({self.files.name!r}).save('FOLDER').",
            )
        settings = self.files.settings("sentence_bert_config.json")
        pipeline = Pipeline(
            source=f"{self.files.name}: modules.json",
            pooling="mask_token" if settings.take("read_mask", bool) else "mean",
            row_tokens=settings.take("max_seq_length", int),
            sentence_tokens=settings.take("sentence_tokens", int),
            lower_case=settings.take("do_lower_case", bool) or False,
        )
        template = settings.take("template", str)
        edit: Any = settings.take("edit", str) or "none"
        loading = {key: settings.take(key, dict) or {} for key in LOADING}
        further = {
            f"{key}.{name}": value
            for key, values in loading.items()
            for name, value in values.items()
            if name not in LOADING_WITHOUT_EFFECT
        }
        for key, value in (settings | further).items():
            if key not in WITHOUT_EFFECT and not (key in NEUTRAL and value in (NEUTRAL[key], None)):
                raise self.reject(f"{key}={value!r} in sentence_bert_config.json")
        if edit not in get_args(TextEdit):
            raise self.reject(f"edit={edit!r} in sentence_bert_config.json")
        return replace(pipeline, template=None if template == SLOT else template, text_edit=edit)

    def _pooling(self, pipeline: Pipeline, path: str) -> Pipeline:
        settings = self.files.settings(f"{path}/config.json")
        mode = settings.get("pooling_mode")
        if mode is None:
            mode = [name for key, name in LEGACY_POOLINGS.items() if settings.take(key, bool)] or ["mean"]
        modes = mode if isinstance(mode, list) else [mode]
        if len(modes) != 1 or modes[0] not in POOLINGS:
            raise self.reject(
                f"pooling {' and '.join(map(str, modes))}",
                f"{', '.join(POOLINGS)} are read; model.pooling sets another one.",
            )
        found = POOLINGS[modes[0]]
        if pipeline.pooling == "mask_token":  # our export leaves only the mask visible to the mean
            found = "mask_token"
        return replace(
            pipeline, pooling=found, include_prompt=settings.take("include_prompt", bool) is not False
        )

    def _prompts(self, pipeline: Pipeline) -> Pipeline:
        settings = self.files.settings("config_sentence_transformers.json")
        kind = settings.get("model_type", "SentenceTransformer")
        if kind != "SentenceTransformer":
            raise self.reject(f"model_type {kind}")
        if settings.get("truncate_dim") is not None:
            raise self.reject(f"truncate_dim={settings['truncate_dim']}")
        prompts = {str(name): str(text) for name, text in (settings.take("prompts", dict) or {}).items()}
        default = settings.take("default_prompt_name", str)
        if default is not None and default not in prompts:
            raise settings.broken(f"the default prompt {default!r} is not among its prompts")
        similarity = settings.take("similarity_fn_name", str) or "cosine"
        return replace(pipeline, prompts=prompts, default_prompt=default, similarity=similarity)

    def _dense(self, path: str) -> Dense:
        settings = self.files.settings(f"{path}/config.json")
        kind = str(settings.get("activation_function", "torch.nn.Tanh"))
        activation = kind.rpartition(".")[2]
        if not kind.startswith("torch.nn.") or activation not in ACTIVATIONS:
            raise self.reject(f"the activation {kind} in {path}", f"Read are {', '.join(ACTIVATIONS)}.")
        names = {
            settings.take(key, str) or "sentence_embedding"
            for key in ("module_input_name", "module_output_name")
        }
        if settings.take("use_residual", bool) or names != {"sentence_embedding"}:
            raise self.reject(f"a dense layer in {path} with a residual or of other inputs than the vector")
        inputs, outputs = settings.take("in_features", int), settings.take("out_features", int)
        if inputs is None or outputs is None:
            raise settings.broken("in_features and out_features are required")
        return Dense(path, inputs, outputs, settings.take("bias", bool) is not False, activation)

    def _normalize(self, kinds: list[tuple[str, str]]) -> bool:
        paths = [path for kind, path in kinds if kind == "Normalize"]
        for path in paths:
            settings = self.files.settings(f"{path}/config.json")
            keys = [key for key in settings if key.endswith("_name")]
            names = {settings.take(key, str) or "sentence_embedding" for key in keys}
            if names - {"sentence_embedding"}:
                raise self.reject(f"a normalisation in {path} of something else than the vector")
        return bool(paths)
