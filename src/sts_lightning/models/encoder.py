"""The sentence encoder: template, tokenizer, backbone and pooling as one object."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, Self, TypedDict, Unpack, get_args

import numpy as np
import torch
from peft import PeftConfig, PeftModel
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from sts_lightning.choices import Denoise, Precision, Quantization, TextEdit
from sts_lightning.errors import ConfigError
from sts_lightning.models.adapter import adapted
from sts_lightning.models.attention import is_causal, make_bidirectional
from sts_lightning.models.backbone import DtypeName, load_backbone
from sts_lightning.models.batch_probe import TEXTS, agree, check_independence, is_proven
from sts_lightning.models.limits import check_length, position_offset
from sts_lightning.models.pooling import POOLINGS, Pooling, pool
from sts_lightning.models.prefix import SharedPrefix, can_share, split_prefix
from sts_lightning.models.text_edit import edit
from sts_lightning.models.tokenize import Rows, SentenceTokenizer

Projection = Literal["none", "train", "always"]
"""Whether a linear layer with tanh stands on top of the pooled vector."""

Augment = Callable[[list[int], Sequence[int]], list[int]]
"""From token ids, and for each whether it is a special token, to token ids."""

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


class EncoderSettings(TypedDict, total=False):
    """The arguments of `SentenceEncoder` besides backbone and tokenizer, for functions that hand them on."""

    pooling: Pooling
    max_length: int
    layer: int
    template: str | None
    view_templates: Sequence[str] | None
    denoise: Denoise
    denoise_evaluation: bool
    projection: Projection
    adapter: PeftConfig | None
    bidirectional_layers: int


class SentenceEncoder(nn.Module):
    """Maps sentences to vectors.

    Args:
        backbone: A transformer without head, whose output has ``last_hidden_state``.
        tokenizer: Its tokenizer.
        pooling: How a vector is read out.
        max_length: Most tokens of a sentence.
        layer: Whose output is pooled: -1 the last one's, behind the final norm; -2 that of the layer below
            it, and so on.
        template: Text with the slot ``{sentence}`` that is put around each sentence, or None.
        view_templates: The template of each view in training, where they differ.
        denoise: What is subtracted from a vector in training (see `Denoise`); gradient flows through both.
        denoise_evaluation: Whether it is subtracted in evaluation too.
        projection: A linear layer with tanh on top: ``none``; ``train``, dropped in evaluation, as
            unsupervised SimCSE does; ``always``, as supervised SimCSE does.
        adapter: Settings of a peft adapter; the backbone's own weights then stand still.
        bidirectional_layers: In how many of the last layers of a causal model a token sees those behind it
            too; -1 for all.

    Attributes:
        text_edit: How `encode` edits sentences (see `edit`); training never does.

    Raises:
        ConfigError: Pooling, template, adapter, layers and tokenizer do not fit together, a row can have more
            tokens than the model has positions, or the model's vectors depend on the batch.
    """

    def __init__(
        self,
        backbone: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        pooling: Pooling = "mean",
        max_length: int = 128,
        layer: int = -1,
        template: str | None = None,
        view_templates: Sequence[str] | None = None,
        denoise: Denoise = "none",
        denoise_evaluation: bool = False,
        projection: Projection = "none",
        adapter: PeftConfig | None = None,
        bidirectional_layers: int = 0,
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
        for key in ("num_hidden_layers", "hidden_size"):
            if not isinstance(getattr(backbone.config, key, None), int):
                raise ConfigError(
                    f"{type(backbone).__name__} is not supported: its configuration has no {key}. Choose "
                    "another model."
                )
        depth = backbone.config.num_hidden_layers
        if not -depth <= layer <= -1 or (layer != -1 and pooling == "first_last_mean"):
            raise ConfigError(
                f"prompt.layer={layer} must lie between {-depth} and -1, the last layer, and is not for "
                "model.pooling=first_last_mean."
            )
        self.layer = layer
        self.text_edit: TextEdit = "none"
        causal = is_causal(backbone)
        # On the right, positions are natural without a mask; on the left, those of BERT's family would shift.
        tokenizer.padding_side = "right"
        self.tokenizer = SentenceTokenizer(
            tokenizer, max_length, template, view_templates, denoise, position_offset(backbone)
        )
        inputs = inspect.signature(backbone.forward).parameters
        if denoise != "none" and "position_ids" not in inputs:
            raise ConfigError(
                f"prompt.denoise={denoise} needs a model that takes position_ids, which "
                f"{type(backbone).__name__} does not; set prompt.denoise=none."
            )
        longest = self.tokenizer.longest_row
        check_length(backbone, longest, max_length, getattr(adapter, "num_virtual_tokens", None) or 0)
        if bidirectional_layers:
            make_bidirectional(backbone, bidirectional_layers, longest)
        self.bidirectional_layers = bidirectional_layers
        self.causal = causal and bidirectional_layers == 0
        self.denoise_evaluation = denoise_evaluation and denoise != "none"
        self.projection: Projection = projection
        if projection != "none":
            size = backbone.config.hidden_size
            self.projector = nn.Sequential(nn.Linear(size, size), nn.Tanh())
        self.backbone = backbone if adapter is None else adapted(backbone, adapter)
        self.pooling: Pooling = pooling
        self._takes_embeddings = "inputs_embeds" in inputs
        if not is_proven(backbone):
            self._probe(backbone)

    @classmethod
    def from_pretrained(
        cls,
        name: str,
        config: dict[str, Any] | None = None,
        trust_remote_code: bool = False,
        dtype: DtypeName = "float32",
        quantization: Quantization = "none",
        device: str | None = None,
        **settings: Unpack[EncoderSettings],
    ) -> Self:
        """Load a hub id or a local folder; see `load_backbone` for arguments and errors."""
        backbone, tokenizer = load_backbone(name, config, trust_remote_code, dtype, quantization, device)
        return cls(backbone, tokenizer, **settings)

    @property
    def dimension(self) -> int:
        """D, the size of a vector."""
        size: int = self.backbone.config.hidden_size
        return size

    @property
    def plain_backbone(self) -> PreTrainedModel:
        """The backbone without the wrapper of its adapter."""
        backbone: Any = self.backbone
        plain: Any = backbone.get_base_model() if isinstance(backbone, PeftModel) else backbone
        assert isinstance(plain, PreTrainedModel)
        return plain

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

    @torch.no_grad()
    def _probe(self, backbone: PreTrainedModel) -> None:
        """Find out what is known of `PROVEN` models already: of padding, and of looking up embeddings apart.

        Some models scale embeddings that they look up themselves, and do not scale those they are given.
        """
        training = self.training
        self.eval()
        try:
            check_independence(self._embed_together, backbone)
            if self._takes_embeddings:
                (chunk,) = self.tokenizer.rows(TEXTS, 10**9).chunks
                chunk = {name: ids.to(self.device) for name, ids in chunk.items()}
                embedded = self.backbone.get_input_embeddings()(chunk["input_ids"])
                given = self.embed_chunk(chunk, {"inputs_embeds": embedded})
                self._takes_embeddings = agree(self.embed_chunk(chunk), given, backbone)
        finally:
            self.train(training)

    def _embed_together(self, sentences: list[str]) -> Tensor:
        """Vectors of sentences from one padded chunk, (N, D), in order."""
        rows = self.tokenizer.rows(sentences, 10**9)
        (chunk,) = rows.chunks
        vectors = self.embed_chunk({name: ids.to(self.device) for name, ids in chunk.items()})
        return vectors[rows.restore.to(vectors.device)]

    def longest_rows(self, count: int) -> dict[str, Tensor]:
        """A chunk of rows that are as long as rows can get, on the encoder's device."""
        chunk = self.tokenizer.longest(count)
        return {name: values.to(self.device) for name, values in chunk.items()}

    def checkpoint_layers(self) -> None:
        """Keep each layer's input only, and run the layer again for its gradient (gradient checkpointing).

        Raises:
            ConfigError: The model cannot.
        """
        try:
            self.backbone.activation_checkpointing_enable({"use_reentrant": False})
        except ValueError as error:
            raise ConfigError(f"trainer.gradient_checkpointing: {error}") from error

    def forward(self, rows: Rows, recompute: bool = False) -> Tensor:
        """Embed tokenised sentences.

        The chunks run one after the other, and the vectors are put back in order, so the result, and
        the gradient, are those of one padded block.

        Args:
            rows: The sentences.
            recompute: Keep no activations, and run each chunk again, with the same dropout, when the gradient
                comes back to it (a gradient cache: Gao et al. 2021, arXiv 2101.06983). The memory is that
                of one chunk, the gradient the same.

        Returns:
            Vectors in float32, shape (N, D).
        """
        embed = partial(checkpoint, self.embed_chunk, use_reentrant=False) if recompute else self.embed_chunk
        inputs = self._look_up_once(rows) if self._trains_embeddings() else [{}] * len(rows.chunks)
        vectors = [embed(*both) for both in zip(rows.chunks, inputs, strict=True)]
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

    def embed_chunk(
        self,
        chunk: dict[str, Tensor],
        embeddings: dict[str, Tensor] | None = None,
        prefix: SharedPrefix | None = None,
    ) -> Tensor:
        """Vectors of one padded chunk, (n, D) in float32.

        Args:
            chunk: ``input_ids``, ``attention_mask`` and perhaps ``position_ids``.
            embeddings: ``inputs_embeds`` of the same tokens, where they have been looked up already.
            prefix: What stands before the tokens of each row, where that has been computed already.
        """
        inputs: dict[str, Any] = dict(embeddings or {"input_ids": chunk["input_ids"]})
        if not self.causal:  # else no token sees the padding behind it, and no mask means a faster kernel
            inputs["attention_mask"] = chunk["attention_mask"]
        if "position_ids" in chunk:
            inputs["position_ids"] = chunk["position_ids"]
        if prefix is not None:
            inputs["past_key_values"] = prefix.cache(len(chunk["input_ids"]))
        inner = self.pooling == "first_last_mean" or self.layer != -1
        output = self.backbone(**inputs, output_hidden_states=inner)
        if self.layer != -1:
            hidden = (output.hidden_states[self.layer],)
        else:
            hidden = output.hidden_states if inner else (output.last_hidden_state,)
        return pool(
            self.pooling, hidden, chunk["attention_mask"], chunk["input_ids"], self.tokenizer.mask_token_id
        )

    @property
    def precision(self) -> Precision:
        """That of the weights that are not quantised."""
        return next(name for name, dtype in DTYPES.items() if dtype == self.backbone.dtype)

    def set_precision(self, precision: Precision) -> Self:
        """Convert the weights for encoding; not for training, which needs float32 weights."""
        if precision not in DTYPES:
            raise ConfigError(f"precision must be one of {', '.join(DTYPES)} here, got {precision!r}.")
        return self.to(DTYPES[precision])

    @torch.inference_mode()
    def encode(
        self,
        sentences: Sequence[str],
        chunk_tokens: int | None = None,
        progress: bool | None = None,
        share_prefix: bool = True,
    ) -> np.ndarray:
        """Vectors of sentences, each encoded once, in batches of similar length.

        On a CPU the chunks are spread over as many threads as torch may use, each computing on one
        core: a transformer's many small operations gain more from that than from sharing each of them.

        Args:
            sentences: Any number of texts.
            chunk_tokens: Padded tokens that are encoded together; chosen by device if not given.
            progress: Whether to show a progress bar; by default in a terminal if there is much to do.
            share_prefix: Whether a causal model reads the tokens with which all sentences begin, those of
                the template, only once.

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
                [edit(text, self.text_edit) for text in sentences],
                chunk_tokens or (CPU_CHUNK_TOKENS if device == "cpu" else GPU_CHUNK_TOKENS),
            )
            prefix = None
            if share_prefix and self._can_share_prefix():
                prefix, rows = split_prefix(
                    self.backbone, self.backbone.config.num_hidden_layers, rows, self.device
                )
            # Reading all hidden states hooks into the modules, which threads must not do at once.
            inner = self.pooling == "first_last_mean" or self.layer != -1
            threaded = device == "cpu" and not inner and len(rows.chunks) > 1
            vectors = (self._embed_in_threads if threaded else self._embed_in_turn)(rows, prefix)
            if progress is None:
                progress = len(rows.chunks) >= MANY_CHUNKS and Console().is_terminal
            parts = list(track(vectors, "Encoding", len(rows.chunks), disable=not progress, transient=True))
            ordered: np.ndarray = self._finish(torch.cat(parts), rows).cpu().numpy()
        finally:
            self.train(training)
        return ordered

    def _can_share_prefix(self) -> bool:
        """Whether what is computed of a prefix can be handed on: not beside a trained prefix of peft's."""
        taken = isinstance(self.backbone, PeftModel) and self.backbone.active_peft_config.is_prompt_learning
        return self.causal and self.pooling == "last_token" and not taken and can_share(self.plain_backbone)

    def _embed_in_turn(self, rows: Rows, prefix: SharedPrefix | None) -> Iterator[Tensor]:
        for chunk in rows.chunks:
            yield self.embed_chunk({name: ids.to(self.device) for name, ids in chunk.items()}, prefix=prefix)

    def _embed_in_threads(self, rows: Rows, prefix: SharedPrefix | None) -> Iterator[Tensor]:
        threads = torch.get_num_threads()

        @torch.inference_mode()
        def embed(chunk: dict[str, Tensor]) -> Tensor:
            return self.embed_chunk(chunk, prefix=prefix)

        try:
            with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool_:
                yield from pool_.map(embed, rows.chunks)
        finally:
            torch.set_num_threads(threads)
