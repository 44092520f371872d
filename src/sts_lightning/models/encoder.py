"""The sentence encoder: template, tokenizer, backbone and pooling as one object."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from peft import PeftConfig, PeftModel, get_peft_model
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from sts_lightning.errors import ConfigError
from sts_lightning.models.backbone import load_backbone
from sts_lightning.models.pooling import POOLINGS, Pooling, pool
from sts_lightning.models.tokenize import Denoise, Rows, SentenceTokenizer

Projection = Literal["none", "train", "always"]
"""Whether a linear layer with tanh stands on top of the pooled vector."""

Augment = Callable[[list[int], Sequence[int]], list[int]]
"""From token ids, and for each whether it is a special token, to token ids."""

Precision = Literal["32-true", "bf16-true", "16-true"]
"""Weights and arithmetic of an encoder that does not train, in Lightning's names."""

DTYPES: dict[Precision, torch.dtype] = {
    "32-true": torch.float32,
    "bf16-true": torch.bfloat16,
    "16-true": torch.float16,
}

CPU_CHUNK_TOKENS = 1024
"""Padded tokens of a chunk in `SentenceEncoder.encode`: small ones stay in a CPU core's cache."""

GPU_CHUNK_TOKENS = 32768

MANY_CHUNKS = 50
"""From how many chunks on a progress bar is worth its place."""


class SentenceEncoder(nn.Module):
    """Maps sentences to vectors.

    Args:
        backbone: A transformer without head, whose output has ``last_hidden_state``.
        tokenizer: Its tokenizer.
        pooling: How a vector is read out.
        max_length: Most tokens of a sentence.
        template: Text with the slot ``{sentence}`` that is put around each sentence, or None.
        view_templates: The template of each view in training, where they differ.
        denoise: What is subtracted from a vector in training (see `Denoise`); gradient flows through both.
        denoise_evaluation: Whether it is subtracted in evaluation too.
        projection: A linear layer with tanh on top: ``none``; ``train``, dropped in evaluation, as
            unsupervised SimCSE does; ``always``, as supervised SimCSE does.
        adapter: Settings of a peft adapter; the backbone's own weights then stand still.

    Raises:
        ConfigError: Pooling, template, adapter and tokenizer do not fit together.
    """

    def __init__(
        self,
        backbone: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        pooling: Pooling = "mean",
        max_length: int = 128,
        template: str | None = None,
        view_templates: Sequence[str] | None = None,
        denoise: Denoise = "none",
        denoise_evaluation: bool = False,
        projection: Projection = "none",
        adapter: PeftConfig | None = None,
    ) -> None:
        super().__init__()
        if pooling not in POOLINGS:
            raise ConfigError(f"model.pooling must be one of {', '.join(POOLINGS)}, got {pooling!r}.")
        if projection not in get_args(Projection):
            raise ConfigError(
                f"model.projection must be one of {', '.join(get_args(Projection))}, got {projection!r}."
            )
        texts = [template or "", *(view_templates or [])]
        if pooling == "mask_token" and not all("{mask}" in text for text in texts):
            raise ConfigError(
                "model.pooling=mask_token needs a template with {mask}, such as prompt=promptbert."
            )
        positions = getattr(backbone.config, "max_position_embeddings", None)
        if positions is not None and max_length > positions:
            raise ConfigError(
                f"model.max_length={max_length} exceeds the {positions} positions of the model."
            )
        self.tokenizer = SentenceTokenizer(
            tokenizer, max_length, template, view_templates, denoise, _position_offset(backbone)
        )
        self.denoise_evaluation = denoise_evaluation and denoise != "none"
        self.projection: Projection = projection
        if projection != "none":
            size = backbone.config.hidden_size
            self.projector = nn.Sequential(nn.Linear(size, size), nn.Tanh())
        self.backbone = backbone if adapter is None else _adapted(backbone, adapter)
        self.pooling: Pooling = pooling
        # Left padding shifts positions that a model derives from token ids.
        self._takes_embeddings = (
            tokenizer.padding_side == "right"
            and "inputs_embeds" in inspect.signature(backbone.forward).parameters
        )

    @classmethod
    def from_pretrained(
        cls,
        name: str,
        pooling: Pooling = "mean",
        max_length: int = 128,
        template: str | None = None,
        config: dict[str, Any] | None = None,
        trust_remote_code: bool = False,
        view_templates: Sequence[str] | None = None,
        denoise: Denoise = "none",
        denoise_evaluation: bool = False,
        projection: Projection = "none",
        adapter: PeftConfig | None = None,
    ) -> Self:
        """Load a hub id or a local folder; see `load_backbone` for arguments and errors."""
        backbone, tokenizer = load_backbone(name, config, trust_remote_code)
        return cls(
            backbone,
            tokenizer,
            pooling,
            max_length,
            template,
            view_templates,
            denoise,
            denoise_evaluation,
            projection,
            adapter,
        )

    @property
    def dimension(self) -> int:
        """D, the size of a vector."""
        size: int = self.backbone.config.hidden_size
        return size

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def prepare(
        self, chunk_tokens: int, training: bool
    ) -> Callable[[Sequence[Sequence[str]], Sequence[Augment | None]], Rows]:
        """What turns the sentences of views into the input of `forward`.

        Args:
            chunk_tokens: Most padded tokens of a chunk.
            training: Whether each view has its own template, and bare templates are added to subtract.
        """

        def rows(views: Sequence[Sequence[str]], augmentations: Sequence[Augment | None]) -> Rows:
            if training:
                return self.tokenizer.training_rows(views, augmentations, chunk_tokens)
            return self._evaluation_rows([text for view in views for text in view], chunk_tokens)

        return rows

    def _evaluation_rows(self, sentences: Sequence[str], chunk_tokens: int) -> Rows:
        if not self.denoise_evaluation:
            return self.tokenizer.rows(sentences, chunk_tokens)
        return self.tokenizer.rows(sentences, chunk_tokens, denoise=True)

    def forward(self, rows: Rows) -> Tensor:
        """Embed tokenised sentences.

        The chunks run one after the other, and the vectors are put back in order, so the result, and
        the gradient, are those of one padded block.

        Returns:
            Vectors in float32, shape (N, D).
        """
        inputs = self._look_up_once(rows) if self._trains_embeddings() else [{}] * len(rows.chunks)
        vectors = [self.embed_chunk(*both) for both in zip(rows.chunks, inputs, strict=True)]
        return self._finish(torch.cat(vectors), rows)

    def _finish(self, vectors: Tensor, rows: Rows) -> Tensor:
        """Order, subtraction of bare templates, projection."""
        vectors = vectors[rows.restore.to(vectors.device)]
        if rows.baseline is not None:
            baseline = rows.baseline.to(vectors.device)
            vectors = vectors[: len(baseline)] - vectors[len(baseline) :][baseline]
        if self.projection == "always" or (self.projection == "train" and self.training):
            vectors = self.projector(vectors.to(next(self.projector.parameters()).dtype)).float()
        return vectors

    def _trains_embeddings(self) -> bool:
        table = self.backbone.get_input_embeddings()
        trains = any(parameter.requires_grad for parameter in table.parameters())
        return trains and torch.is_grad_enabled() and self._takes_embeddings

    def _look_up_once(self, rows: Rows) -> list[dict[str, Tensor]]:
        """Token embeddings of each chunk from one look-up for all of them.

        The gradient of a look-up is as large as the whole vocabulary; one for each chunk would cost as
        much time as a quarter of a small model's step.
        """
        ids = [chunk["input_ids"] for chunk in rows.chunks]
        embedded = self.backbone.get_input_embeddings()(torch.cat([chunk.flatten() for chunk in ids]))
        parts = embedded.split([chunk.numel() for chunk in ids])
        return [
            {"inputs_embeds": part.unflatten(0, chunk.shape)} for part, chunk in zip(parts, ids, strict=True)
        ]

    def embed_chunk(self, chunk: dict[str, Tensor], embeddings: dict[str, Tensor] | None = None) -> Tensor:
        """Vectors of one padded chunk, (n, D) in float32.

        Args:
            chunk: ``input_ids``, ``attention_mask`` and perhaps ``position_ids``.
            embeddings: ``inputs_embeds`` of the same tokens, where they have been looked up already.
        """
        every_layer = self.pooling == "first_last_mean"
        output = self.backbone(
            **(embeddings or {"input_ids": chunk["input_ids"]}),
            **{name: chunk[name] for name in ("attention_mask", "position_ids") if name in chunk},
            output_hidden_states=every_layer,
        )
        hidden = output.hidden_states if every_layer else (output.last_hidden_state,)
        return pool(
            self.pooling, hidden, chunk["attention_mask"], chunk["input_ids"], self.tokenizer.mask_token_id
        )

    def set_precision(self, precision: Precision) -> Self:
        """Convert the weights for encoding; not for training, which needs float32 weights."""
        if precision not in DTYPES:
            raise ConfigError(f"precision must be one of {', '.join(DTYPES)} here, got {precision!r}.")
        return self.to(DTYPES[precision])

    @torch.inference_mode()
    def encode(
        self, sentences: Sequence[str], chunk_tokens: int | None = None, progress: bool | None = None
    ) -> np.ndarray:
        """Vectors of sentences, each encoded once, in batches of similar length.

        On a CPU the chunks are spread over as many threads as torch may use, each computing on one
        core: a transformer's many small operations gain more from that than from sharing each of them.

        Args:
            sentences: Any number of texts.
            chunk_tokens: Padded tokens that are encoded together; chosen by device if not given.
            progress: Whether to show a progress bar; by default in a terminal if there is much to do.

        Returns:
            float32 array, shape (len(sentences), D), in the order given.
        """
        if isinstance(sentences, str):
            raise TypeError("encode takes a list of sentences, not one string.")
        if len(sentences) == 0:
            return np.zeros((0, self.dimension), dtype=np.float32)
        training = self.training
        self.eval()
        try:
            device = self.device.type
            rows = self._evaluation_rows(
                sentences, chunk_tokens or (CPU_CHUNK_TOKENS if device == "cpu" else GPU_CHUNK_TOKENS)
            )
            # Reading all hidden states hooks into the modules, which threads must not do at once.
            threaded = device == "cpu" and self.pooling != "first_last_mean" and len(rows.chunks) > 1
            vectors = self._embed_in_threads(rows) if threaded else self._embed_in_turn(rows)
            if progress is None:
                progress = len(rows.chunks) >= MANY_CHUNKS and Console().is_terminal
            parts = list(track(vectors, "Encoding", len(rows.chunks), disable=not progress, transient=True))
            ordered: np.ndarray = self._finish(torch.cat(parts), rows).cpu().numpy()
        finally:
            self.train(training)
        return ordered

    def _embed_in_turn(self, rows: Rows) -> Iterator[Tensor]:
        for chunk in rows.chunks:
            yield self.embed_chunk({name: ids.to(self.device) for name, ids in chunk.items()})

    def _embed_in_threads(self, rows: Rows) -> Iterator[Tensor]:
        threads = torch.get_num_threads()

        @torch.inference_mode()
        def embed(chunk: dict[str, Tensor]) -> Tensor:
            return self.embed_chunk(chunk)

        try:
            with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool_:
                yield from pool_.map(embed, rows.chunks)
        finally:
            torch.set_num_threads(threads)


def _position_offset(backbone: PreTrainedModel) -> int:
    """The position of a row's first token: RoBERTa's family counts from behind its padding index."""
    for module in backbone.modules():
        table = getattr(module, "position_embeddings", None)
        if isinstance(table, nn.Embedding):
            return 0 if table.padding_idx is None else table.padding_idx + 1
    return 0


def _adapted(backbone: PreTrainedModel, adapter: PeftConfig) -> PeftModel:
    """The backbone with a peft adapter, its own weights frozen.

    Raises:
        ConfigError: The adapter does not fit the backbone.
    """
    try:
        adapted = get_peft_model(backbone, adapter)
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"model.adapter does not fit {type(backbone).__name__}: {error}") from error
    assert isinstance(adapted, PeftModel)
    return adapted
