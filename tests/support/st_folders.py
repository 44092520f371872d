"""Folders of sentence-transformers with small random models, made by that library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import nn
from transformers import PreTrainedTokenizerBase

from tests.support.families import tiny, write

TEXTS = ["a dog runs .", "", "someone plays an old guitar in the park", "x", "much longer than " * 20]
"""Short, empty and long texts, the last one longer than the models of these tests read."""

IDENTITY = nn.Identity()


def st_folder(
    folder: Path,
    model_type: str = "bert",
    pooling: str = "mean",
    dense: tuple[tuple[int, nn.Module], ...] = (),
    normalize: bool = False,
    max_seq_length: int | None = 64,
    tokenizer: PreTrainedTokenizerBase | None = None,
    include_prompt: bool = True,
    bias: bool = True,
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[str, SentenceTransformer]:
    """Write a pipeline, and return its folder and the library's own model of it.

    Args:
        folder: Output folder.
        model_type: Type of the transformer.
        pooling: Mode of the pooling.
        dense: Size and activation of each dense layer.
        normalize: Whether there is a normalisation at the end.
        max_seq_length: Number of tokens after which the library cuts a row.
        tokenizer: Tokenizer, by default that of characters.
        include_prompt: Whether the pooling reads the prompt.
        bias: Whether the dense layers have one.
        settings: Settings of the transformer's configuration.
        **options: Arguments of `SentenceTransformer`, such as ``prompts``.
    """
    base = write(tiny(model_type, **(settings or {})), folder / "base", tokenizer)
    size = 32
    modules: list[nn.Module] = [
        Transformer(base, max_seq_length=max_seq_length),
        Pooling(size, pooling, include_prompt=include_prompt),  # type: ignore[arg-type]
    ]
    with torch.random.fork_rng():
        torch.manual_seed(1)
        for outputs, activation in dense:
            modules.append(Dense(size, outputs, bias=bias, activation_function=activation))
            size = outputs
    if normalize:
        modules.append(Normalize())
    model = SentenceTransformer(modules=modules, device="cpu", **options)
    model.save(str(folder / "st"), create_model_card=False)  # the card would ask the hub
    return str(folder / "st"), SentenceTransformer(str(folder / "st"), device="cpu")
