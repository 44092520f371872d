"""Runs as folders for other libraries: a peft adapter, a merged model, a sentence-transformers model."""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, get_args

from peft import PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from torch import nn
from transformers import PreTrainedModel

from sts_lightning.config.trust import Trust
from sts_lightning.errors import CheckpointError, ConfigError
from sts_lightning.models.adapter import adapted
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.encoder_decoder import origin_of, save_backbone
from sts_lightning.models.loading import load_from, with_quantization
from sts_lightning.models.pooling import Pooling
from sts_lightning.models.quantization import dequantized
from sts_lightning.runs.folder import RunFolder

Format = Literal["adapter", "merged", "sentence-transformers"]
"""``adapter``: what peft reads; ``merged``: weights with the adapter in them, which transformers reads."""

Base = Literal["trained", "original"]
"""What a merged adapter stands on: the base as it was in training, its quantisation undone, which gives the
vectors of the run; or the original weights, which the adapter has never seen (the papers' evaluation)."""

ST_POOLING: dict[Pooling, str] = {
    "cls": "cls",
    "mean": "mean",
    "last_token": "lasttoken",
    "mask_token": "mean",  # of the one token that the module before it leaves visible
}


def export(
    run: Path,
    folder: Path,
    format_: Format,
    base: Base = "trained",
    trust: Iterable[str] = (),
    trust_remote_code: bool = False,
) -> None:
    """Write the encoder of a run in another library's form; a folder is there whole or not at all.

    Each holds the tokenizer, and ``sts_lightning.json`` with template, pooling and what else makes a vector
    of a sentence.

    Args:
        run: The run folder.
        folder: Where to write; must not exist.
        format_: See `Format`.
        base: See `Base`.
        trust: Further classes and settings that the run folder may ask for; see `sts_lightning.load`.
        trust_remote_code: Whether code that comes with the run's model may run.

    Raises:
        ConfigError: The folder exists, or the format cannot hold the encoder.
        CheckpointError: The run cannot be read, or has no adapter to export.
        UntrustedError: It asks for more than the arguments allow.
    """
    if format_ not in get_args(Format) or base not in get_args(Base):
        known = f"{', '.join(get_args(Format))}, the base {' or '.join(get_args(Base))}"
        raise ConfigError(f"the format is one of {known}.")
    if folder.exists():
        raise ConfigError(f"{folder} exists already; choose another folder.")
    cfg = RunFolder(run).load_config(Trust.of(trust, trust_remote_code))
    _check_place(folder)
    if base == "original" and format_ != "adapter":
        cfg.model = with_quantization(cfg.model, "none")
    encoder = load_from(RunFolder(run), cfg).eval()
    write = {"adapter": _write_adapter, "merged": _write_merged, "sentence-transformers": _write_st}[format_]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        inside = Path(temporary) / "export"
        inside.mkdir()
        write(encoder, inside, cfg.model.get("name", cfg.model["_target_"]))
        (inside / "sts_lightning.json").write_text(json.dumps(_settings(encoder), indent=2) + "\n", "utf-8")
        inside.rename(folder)


def _check_place(folder: Path) -> None:
    """See that a folder can be made, and leave nothing behind.

    Raises:
        ConfigError: It cannot.
    """
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryDirectory(dir=above, prefix=f".{folder.name}."):
            pass
    except OSError as error:
        raise ConfigError(f"{folder} cannot be made ({error.strerror}); choose another folder.") from error


def _settings(encoder: SentenceEncoder) -> dict[str, Any]:
    return {
        "pooling": encoder.pooling,
        "template": encoder.tokenizer.template,
        "max_length": encoder.tokenizer.max_length,
        "layer": encoder.layer,
        "bidirectional_layers": encoder.bidirectional_layers,
        "projection": encoder.projection,
        "denoise_evaluation": encoder.denoise_evaluation,
        "text_edit": encoder.text_edit,
    }


def _write_adapter(encoder: SentenceEncoder, folder: Path, name: str) -> None:
    if not isinstance(encoder.backbone, PeftModel):
        raise CheckpointError("the run has no adapter; use --format merged, which writes all weights.")
    for config in encoder.backbone.peft_config.values():
        config.base_model_name_or_path, _, revision = name.partition("@")
        config.revision = revision or None
        config.inference_mode = True
    encoder.backbone.save_pretrained(str(folder), save_embedding_layers=False)
    encoder.tokenizer.tokenizer.save_pretrained(folder)


def _write_merged(encoder: SentenceEncoder, folder: Path, name: str) -> None:
    save_backbone(merged(encoder), folder)
    encoder.tokenizer.tokenizer.save_pretrained(folder)


def merged(encoder: SentenceEncoder) -> PreTrainedModel:
    """The backbone with its adapter in its weights, none of them quantised; the encoder is used up.

    Raises:
        ConfigError: The adapter is of a kind that cannot be merged, such as a prefix.
    """
    backbone = encoder.backbone
    if not isinstance(backbone, PeftModel):
        return dequantized(backbone)
    config = copy.deepcopy(backbone.peft_config["default"])
    tuner: Any = backbone.base_model
    if not hasattr(tuner, "merge_and_unload"):
        kind = str(config.peft_type).rpartition(".")[2]
        raise ConfigError(f"an adapter of kind {kind} cannot be merged; use --format adapter.")
    trained = get_peft_model_state_dict(backbone, save_embedding_layers=False)
    whole = adapted(dequantized(tuner.unload()), config)
    set_peft_model_state_dict(whole, trained)
    tuner = whole.base_model
    result: PreTrainedModel = tuner.merge_and_unload()
    return result


def _write_st(encoder: SentenceEncoder, folder: Path, name: str) -> None:
    try:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.base.modules import Dense, Transformer
        from sentence_transformers.sentence_transformer.modules import Pooling as STPooling
    except ImportError as error:
        raise ConfigError(
            "--format sentence-transformers needs sentence-transformers: pip install 'sts-lightning[st]'."
        ) from error
    from sts_lightning.export.template_transformer import TemplateTransformer

    wrong = [
        setting
        for setting, is_wrong in {
            "model.pooling=first_last_mean": encoder.pooling == "first_last_mean",
            f"prompt.layer={encoder.layer}": encoder.layer != -1,
            "prompt.denoise_evaluation=true": encoder.denoise_evaluation,
            f"model.bidirectional_layers={encoder.bidirectional_layers}": encoder.bidirectional_layers != 0,
        }.items()
        if is_wrong
    ]
    if wrong:
        raise ConfigError(f"sentence-transformers has no form for {', '.join(wrong)}; use --format merged.")
    origin = origin_of(encoder.plain_backbone)
    if origin is not None:
        raise ConfigError(
            f"sentence-transformers would run the decoder of {origin.model} too and pool its output; use "
            "--format merged, of which AutoModel.from_pretrained(folder).get_encoder() is the encoder."
        )
    tokenizer = encoder.tokenizer
    with tempfile.TemporaryDirectory() as plain:
        _write_merged(encoder, Path(plain), name)
        if tokenizer.template is None and encoder.text_edit == "none":
            first: nn.Module = Transformer(plain, max_seq_length=tokenizer.max_length)
        else:
            first = TemplateTransformer(
                plain,
                template=tokenizer.template or "{sentence}",
                sentence_tokens=tokenizer.max_length,
                edit=encoder.text_edit == "official",
                read_mask=encoder.pooling == "mask_token",
            )
        modules = [first, STPooling(encoder.dimension, ST_POOLING[encoder.pooling])]
        if encoder.projection == "always":
            dense = Dense(encoder.dimension, encoder.dimension, activation_function=nn.Tanh())
            dense.linear.load_state_dict(encoder.projector[0].state_dict())
            modules.append(dense)
        SentenceTransformer(modules=modules, device="cpu").save(str(folder))
    if isinstance(first, TemplateTransformer):
        source = Path(__file__).with_name("sts_template.py")
        shutil.copy(source, folder / source.name)
        path = folder / "modules.json"
        listed = json.loads(path.read_text("utf-8"))
        listed[0]["type"] = f"{source.stem}.{TemplateTransformer.__name__}"
        path.write_text(json.dumps(listed, indent=2) + "\n", "utf-8")
