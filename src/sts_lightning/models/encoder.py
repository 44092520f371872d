"""Sentence encoder: template, tokenizer, backbone and pooling as one object."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import Progress
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase, masking_utils

from sts_lightning.core.choices import DtypeName, Frozen, Precision, Quantization, Role, TextEdit
from sts_lightning.core.errors import ConfigError
from sts_lightning.core.hardware import encoding_chunk_tokens
from sts_lightning.core.processes import Shard
from sts_lightning.models.compute.budget import TokenBudget
from sts_lightning.models.compute.gradient_cache import recomputed
from sts_lightning.models.compute.inference import (
    SLICE,
    embed_chunks,
    evaluation_mode,
    to_device,
    to_host,
)
from sts_lightning.models.encoding import Base, EncodingConfig, takes_settings
from sts_lightning.models.loading.backbone import (
    DTYPES,
    Loader,
    is_causal,
    load_backbone,
    plain,
)
from sts_lightning.models.pooling import make_projection, pool, width
from sts_lightning.models.text.tokenizer import Prepare, SentenceTokenizer, TokenizedBatch

if TYPE_CHECKING:
    from peft import PeftConfig, PeftModel

    from sts_lightning.models.compute.shared_prefix import SharedPrefix


log = logging.getLogger(__name__)

TOLERANCE = 1e-3
"""Largest difference that float32 rounding explains, as a fraction of the longer vector's norm."""

COARSE_TOLERANCE = 0.05
"""The same for 16-bit arithmetic and quantised weights."""

MANY_CHUNKS, CHARACTERS = 50, 4
"""Number of chunks from which a progress bar is shown, and characters of a token, about."""

PROBES = ["A dog runs.", "Someone plays an old guitar in the park while two men are sitting on a bench."]
"""Texts of the probes: a short sentence and a longer one."""


class SentenceEncoder(nn.Module):
    """Maps sentences to vectors. It is made in evaluation mode.

    Args:
        backbone: Transformer without a head, whose output has ``last_hidden_state``.
        tokenizer: Tokenizer of the backbone.
        adapter: Settings of a peft adapter; the backbone's own weights are then frozen.
        projector: Layers of the projection, linear ones and activations; by default new ones.
        base: Where the backbone's weights come from, if that is known.
        **settings: Fields of `EncodingConfig`.

    Attributes:
        config: The settings.
        base: Where the backbone's weights come from, if that is known.
        tells_truncation: Whether `encode` warns of sentences that it truncates. Commands that have reported
            it, or encode batch by batch, turn it off.

    Raises:
        ValueError: An argument is out of range, or the arguments do not fit together or the backbone.
        ConfigError: The backbone or the tokenizer is not supported, for example because its vectors depend on
            the batch.
    """

    backbone: PreTrainedModel | PeftModel

    @takes_settings(EncodingConfig)
    def __init__(
        self,
        backbone: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        adapter: PeftConfig | None = None,
        projector: nn.Sequential | None = None,
        base: Base | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        self.config = config = EncodingConfig(**settings)
        self.base = base
        self.tells_truncation = True
        name = type(backbone).__name__
        for key in ("num_hidden_layers", "hidden_size"):
            if not isinstance(getattr(backbone.config, key, None), int):
                raise ConfigError(
                    f"{name} is not supported: its configuration has no {key}. Choose another model."
                )
        depth = backbone.config.num_hidden_layers
        if config.layer < -depth:
            raise ValueError(f"layer must lie between {-depth} and -1, the last layer, got {config.layer}.")
        if config.denoise != "none" and "position_ids" not in inspect.signature(backbone.forward).parameters:
            raise ValueError(
                f"denoise {config.denoise!r} needs a model that takes position_ids, which {name} does not; "
                "set prompt.denoise=none."
            )
        self.causal = config.bidirectional_layers == 0 and is_causal(backbone)
        self._reads_inner_layers = config.pooling == "first_last_mean" or config.layer != -1
        self._takes_embeddings = "inputs_embeds" in inspect.signature(backbone.forward).parameters
        # Padding on the left would shift the positions of BERT's family.
        tokenizer.padding_side = "right"
        self.tokenizer = SentenceTokenizer(tokenizer, config, position_offset(backbone))
        if (
            config.view_templates is not None
            and self.causal
            and config.pooling == "last_token"
            and config.denoise == "none"
        ):
            self.tokenizer.share_rows()
        # How long a row gets is known once the tokenizer has the templates. A row that is too long would fail
        # in the middle of training.
        added = self.tokenizer.added + (getattr(adapter, "num_virtual_tokens", None) or 0)
        fits, max_length = longest_sentence(backbone, added, config.bidirectional_layers), config.max_length
        if fits is not None and max_length is not None and max_length > fits:
            raise ValueError(
                f"max_length must be at most {fits}, got {max_length}: {name} reads {fits + added} tokens, "
                f"up to {added} of them template, special tokens and trained prefix."
            )
        self.tokenizer.set_fits(fits)
        if config.bidirectional_layers:
            from sts_lightning.models.compute.bidirectional import make_bidirectional

            make_bidirectional(backbone, config.bidirectional_layers)
        # A new projection draws its weights before a new adapter does: checkpoints do not depend on it, but
        # the numbers of a seed do.
        if config.projection != "none":
            self.projector = projector or make_projection(backbone.config, config.projection)
        self.backbone = backbone
        if adapter is not None:
            from sts_lightning.models.loading.adapters import add_adapter

            self.backbone = add_adapter(backbone, adapter)
        self.eval()  # as transformers and sentence-transformers leave a model; whoever trains calls train()
        if backbone.device.type != "meta":  # without weights there is nothing to compare
            self._takes_embeddings = self._probe()

    @classmethod
    @takes_settings(EncodingConfig)
    def from_pretrained(
        cls,
        name: str,
        config: dict[str, Any] | None = None,
        trust_remote_code: bool = False,
        dtype: DtypeName = "float32",
        quantization: Quantization = "none",
        device: str | None = None,
        adapter: PeftConfig | None = None,
        loader: Loader = load_backbone,
        **settings: Any,
    ) -> Self:
        """Load a hub id or a local folder; see `load_backbone` for the arguments and errors.

        Only the transformer is taken from it; `from_pipeline` takes pooling and the rest too.

        Args:
            name: Local folder, also that of an adapter, or hub id, optionally with ``@commit``.
            config: Attributes of the model's configuration to set.
            trust_remote_code: Whether to run code that comes with the model.
            dtype: dtype of the weights.
            quantization: Quantisation of the linear layers.
            device: Device that quantised weights are loaded to.
            adapter: Settings of a new peft adapter.
            loader: Function that returns backbone and tokenizer.
            **settings: Fields of `EncodingConfig`.
        """
        base = Base(name, dtype, quantization, config or {})
        backbone, tokenizer = loader(base, trust_remote_code, device)
        return cls(backbone, tokenizer, adapter=adapter, base=pinned(base, backbone), **settings)

    @property
    def plain_backbone(self) -> PreTrainedModel:
        """Backbone without the wrapper of its adapter."""
        return plain(self.backbone)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device

    def _apply(self, *args: Any, **options: Any) -> Self:
        super()._apply(*args, **options)  # type: ignore[no-untyped-call]
        if getattr(self.plain_backbone, "is_quantized", False):
            from sts_lightning.models.loading.quantization import follow_weights

            follow_weights(self)
        return self

    def _to_device(self, chunk: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: to_device(values, self.device) for name, values in chunk.items()}

    def checkpoint_layers(self) -> None:
        """Recompute each layer in the backward pass, keeping only its input (gradient checkpointing).

        Raises:
            ConfigError: The model does not support it, or has a trained prefix.
        """
        adapters = getattr(self.backbone, "peft_config", {}).values()
        if any(adapter.peft_type == "PREFIX_TUNING" for adapter in adapters):
            raise ConfigError(
                "trainer.gradient_checkpointing: a trained prefix is a cache of keys and values, which "
                "transformers leaves out where layers are computed again.",
                key="trainer.gradient_checkpointing",
                hint="Set trainer.micro_batch_size=auto, which takes less memory too.",
            )
        from sts_lightning.models.compute.cpu_attention import recomputed_layer  # few runs recompute

        try:
            self.backbone.activation_checkpointing_enable(
                {"use_reentrant": False, "context_fn": partial(recomputed_layer, self.backbone)}
            )
            # For reentrant checkpoints the library lets token embeddings require a gradient. Here that would
            # hold the embeddings of every chunk, and their gradients, until the end of the backward pass.
            self.plain_backbone.disable_input_require_grads()
        except ValueError as error:
            raise ConfigError(f"trainer.gradient_checkpointing: {error}") from error

    @property
    def precision(self) -> Precision:
        """Precision of the weights that are not quantised."""
        return next(name for name, dtype in DTYPES.items() if dtype == self.backbone.dtype)

    def set_precision(self, precision: Precision) -> Self:
        """Convert the weights for inference; training needs float32 weights.

        Raises:
            ConfigError: The precision is not one of inference.
        """
        if precision == self.precision:
            return self
        if precision not in DTYPES:
            raise ConfigError(f"precision must be one of {', '.join(DTYPES)} here, got {precision!r}.")
        # Angles of rotary positions stay float32, as in a model that is loaded in this precision.
        angles = {name: value for name, value in self.named_buffers() if name.endswith("inv_freq")}
        self.to(DTYPES[precision])
        for name, value in angles.items():
            path, _, attribute = name.rpartition(".")
            setattr(self.get_submodule(path), attribute, value)
        for module in self.modules():
            if hasattr(module, "compute_dtype"):  # of 4-bit layers, whose weights stay as they are
                module.compute_dtype = DTYPES[precision]  # type: ignore[assignment]
        return self

    @property
    def dimension(self) -> int:
        """Size D of a vector."""
        size = width(self.plain_backbone.config)
        if self.config.projection == "always":
            size = [layer.out_features for layer in self.projector if isinstance(layer, nn.Linear)][-1]
        return size if self.config.truncate_dim is None else min(size, self.config.truncate_dim)

    @property
    def evaluation_text(self) -> dict[str, str | int | None]:
        """What evaluation does with a sentence, for the metrics of a run."""
        return {"text_edit": self.config.text_edit, "max_length": self.tokenizer.evaluation_length}

    def set_evaluation(self, text_edit: TextEdit | None = None, max_length: int | None = None) -> Self:
        """Set what evaluation does with a sentence before it is embedded.

        Args:
            text_edit: Edit of the sentence; None leaves it as it is.
            max_length: Number of tokens after which it is truncated; None for what the model is meant to
                read.

        Raises:
            ValueError: The number leaves no room for a sentence, or the model has no positions for it.
        """
        changed = replace(
            self.config, text_edit=text_edit or self.config.text_edit, evaluation_length=max_length
        )
        self.tokenizer.set_evaluation_length(max_length)
        self.config = self.tokenizer.config = changed
        return self

    def prepare(self, chunk_tokens: int, training: bool) -> Prepare:
        """Return the function that turns the sentences of views into the input of `forward`.

        Args:
            chunk_tokens: Maximum number of tokens of a chunk, padding included.
            training: Whether to tokenise as in training: with the templates of the views, and with the bare
                templates to subtract; otherwise as `encode` does.

        Returns:
            The function. With ``training``, prompts by role are those of the views, first and further ones,
            unless it gets ``by_role=False``; otherwise its keyword ``role`` is that of all texts.
        """
        tokenizer = self.tokenizer  # not the encoder: worker processes would receive all weights
        if training:
            return partial(tokenizer.training_rows, chunk_tokens=chunk_tokens)
        settings: Any = {"denoise": self.config.subtracts, "text_edit": self.config.text_edit}
        return partial(tokenizer.evaluation_rows, chunk_tokens=chunk_tokens, **settings)

    def longest_rows(self, count: int) -> dict[str, Tensor]:
        """Return a chunk of ``count`` rows of the maximum length, on the encoder's device."""
        return self._to_device(self.tokenizer.longest(count))

    def forward(
        self,
        rows: TokenizedBatch,
        recompute: bool = False,
        project: bool = True,
        keep_last: bool = False,
    ) -> Tensor:
        """Embed tokenised sentences: chunk by chunk through the backbone and the pooling, then `project`.

        The vectors of the chunks are put back in order, so that the result and the gradient are those of one
        padded block. In evaluation, chunks become smaller where memory runs out.

        Args:
            rows: Tokenised sentences.
            recompute: Whether to recompute each chunk with the same dropout in the backward pass, which takes
                the memory of one chunk (gradient cache, see `recomputed`).
            project: Whether to apply `project`; otherwise the vectors are the pooled ones.
            keep_last: Whether to leave the last chunks out of that, as many as have no more tokens than the
                largest one. The backward pass begins with them, so the peak of the encoder is the same.

        Returns:
            Vectors in float32, shape (N, D); (V * N, D), view-major, of rows that hold V views each.
        """
        if torch.is_grad_enabled() or self.training:
            sizes = [chunk["input_ids"].numel() for chunk in rows.chunks]
            kept = 0 if recompute else len(sizes)
            while keep_last and kept < len(sizes) and sum(sizes[-kept - 1 :]) <= max(sizes):
                kept += 1
            again = partial(recomputed, self.device, self.embed_chunk)
            runs = [again] * (len(sizes) - kept) + [self.embed_chunk] * kept
            inputs = zip(runs, rows.chunks, self._look_up(rows.chunks), strict=True)
            vectors = torch.cat([run(chunk, embedded) for run, chunk, embedded in inputs])
        else:
            within = partial(TokenBudget().embed, self.embed_chunk)
            vectors = torch.cat(list(map(within, rows.chunks)))
        vectors = rows.arrange(vectors)
        return self.project(vectors) if project else vectors

    def _look_up(self, chunks: Sequence[dict[str, Tensor]]) -> list[dict[str, Tensor]]:
        """Look up the token embeddings of all chunks at once: ``inputs_embeds`` of each, (n, L, D).

        The gradient of a look-up is as large as the vocabulary. With one a chunk a step of MiniLM takes 1.07
        times as long, and 1.5 times with the 250,000 tokens of multilingual models.
        """
        table = self.backbone.get_input_embeddings()
        trains = torch.is_grad_enabled() and any(weight.requires_grad for weight in table.parameters())
        if not (self._takes_embeddings and trains):
            return [{} for _ in chunks]
        ids = [chunk["input_ids"] for chunk in chunks]
        embedded = table(torch.cat([chunk.flatten() for chunk in ids]))
        tokens = embedded.split([chunk.numel() for chunk in ids])
        return [
            {"inputs_embeds": rows.unflatten(0, chunk.shape)} for rows, chunk in zip(tokens, ids, strict=True)
        ]

    def project(self, vectors: Tensor) -> Tensor:
        """Apply the projection, if the mode has one, ``normalize`` and ``truncate_dim``: float32 (N, D)."""
        if self.config.projection == "always" or (self.config.projection != "none" and self.training):
            vectors = self.projector(vectors.to(next(self.projector.parameters()).dtype)).float()
        vectors = F.normalize(vectors, dim=-1) if self.config.normalize else vectors
        return vectors[..., : self.config.truncate_dim]

    def embed_chunk(
        self,
        chunk: dict[str, Tensor],
        embeddings: dict[str, Tensor] | None = None,
        prefix: SharedPrefix | None = None,
    ) -> Tensor:
        """Compute the pooled vectors of one padded chunk, (n, D) or (n, V, D) in float32.

        Args:
            chunk: ``input_ids``, ``attention_mask`` and optionally ``position_ids``, ``mask_at`` and
                ``view_at``.
            embeddings: ``inputs_embeds`` of the same tokens, if they have been looked up already.
            prefix: Keys and values of the tokens before each row, if they have been computed already.
        """
        inputs: dict[str, Any] = dict(embeddings or {"input_ids": chunk["input_ids"]})
        if not self.causal:  # a causal model ignores padding on the right, and is faster without
            inputs["attention_mask"] = chunk["attention_mask"]
        if "position_ids" in chunk:
            inputs["position_ids"] = chunk["position_ids"]
        if prefix is not None:
            inputs["past_key_values"] = prefix.cache(len(chunk["input_ids"]))
        with one_text_a_row(), self._attention():
            output = self.backbone(**inputs, output_hidden_states=self._reads_inner_layers)
        if self.config.layer != -1:
            hidden = (output.hidden_states[self.config.layer],)
        else:
            hidden = output.hidden_states if self._reads_inner_layers else (output.last_hidden_state,)
        if (at := chunk.get("view_at")) is not None:
            vectors: Tensor = hidden[-1][torch.arange(len(at), device=at.device)[:, None], at]
            return vectors.float()
        return pool(self.config.pooling, hidden, chunk["attention_mask"], chunk.get("mask_at"))

    def _attention(self) -> AbstractContextManager[Any]:
        """Return the context of a forward pass: half precision on a CPU has an attention of ours."""
        half = self.backbone.dtype != torch.float32 or torch.is_autocast_enabled("cpu")
        if not half or self.backbone.device.type != "cpu":
            return nullcontext()
        from sts_lightning.models.compute.cpu_attention import half_attention

        return half_attention(self.backbone)

    @torch.no_grad()
    def _probe(self) -> bool:
        """Test the encoder in evaluation mode.

        A vector depends on its batch if padding is not masked in every layer (FNet, ConvBERT, Nystromformer),
        or if it is random (YOSO).

        Returns:
            Whether the model gives the same vectors for token embeddings as for token ids. Some models scale
            the embeddings that they look up themselves, but not those passed to them.

        Raises:
            ConfigError: The vector of a short sentence changes beside a longer one, or the model cannot embed
                two sentences at once.
        """
        backbone = self.plain_backbone
        name = type(backbone).__name__
        exact = backbone.dtype == torch.float32 and not getattr(backbone, "is_quantized", False)

        def agree(first: Tensor, second: Tensor) -> bool:  # NaN never does
            size = torch.maximum(first.norm(), second.norm())
            return bool((first - second).norm() <= (TOLERANCE if exact else COARSE_TOLERANCE) * size)

        (short,), (chunk,) = (self.tokenizer.rows(texts, 10**9).chunks for texts in (PROBES[:1], PROBES))
        short, chunk = (
            {key: ids.to(backbone.device) for key, ids in rows.items()} for rows in (short, chunk)
        )
        try:
            alone, beside = self.embed_chunk(short)[0], self.embed_chunk(chunk)
        except Exception as error:  # whatever a model of an unknown kind raises
            raise ConfigError(
                f"{name} cannot embed two sentences of different length in one batch "
                f"({type(error).__name__}: {str(error).partition(chr(10))[0]}); choose another model."
            ) from error
        if not agree(alone, beside[chunk["attention_mask"].sum(dim=1).argmin()]):
            raise ConfigError(
                f"{name} does not ignore padding: the vector of a sentence changes beside a longer one. "
                "Choose another model."
            )
        if not self._takes_embeddings:
            return False
        embedded = self.backbone.get_input_embeddings()(chunk["input_ids"])
        return agree(beside, self.embed_chunk(chunk, {"inputs_embeds": embedded}))

    def encode(
        self,
        sentences: Sequence[str],
        chunk_tokens: int | None = None,
        progress: bool | None = None,
        share_prefix: bool = True,
        normalize: bool = False,
        dim: int | None = None,
        prompt: Role | None = None,
    ) -> np.ndarray:
        """Embed sentences in batches of similar length; a sentence that is repeated is embedded each time.

        Args:
            sentences: Texts, N of them.
            chunk_tokens: Maximum number of tokens that are embedded together, padding included; by default
                chosen by device.
            progress: Whether to show a progress bar; by default in a terminal if there are many chunks.
            share_prefix: Whether a causal model computes the tokens that all sentences start with only once.
            normalize: Whether to scale the vectors to length 1, if the encoder does not do so anyway.
            dim: Number of values of a vector that are kept, the first ones; None for all. An encoder that
                normalises scales them to length 1 again; sentence-transformers does so only if asked to.
            prompt: Role of the sentences, ``query`` or ``document``; None for ``template``, with which texts
                are compared with each other, and which a role without a prompt of its own has too.

        Returns:
            float32 array, shape (N, D), in the order given.

        Raises:
            TypeError: The sentences are no list of strings.
            ValueError: ``dim`` is out of range, or ``prompt`` is no role.
        """
        sentences = as_texts(sentences)
        self.tokenizer.template_of(prompt)  # an unknown role is an error without sentences too
        if dim is not None and not 1 <= dim <= self.dimension:
            raise ValueError(f"dim must lie between 1 and {self.dimension}, the size of a vector, got {dim}.")
        if not sentences:
            return np.zeros((0, dim or self.dimension), dtype=np.float32)
        chunk_tokens = chunk_tokens or encoding_chunk_tokens(self.device.type)
        if progress is None:
            many = sum(map(len, sentences)) >= MANY_CHUNKS * chunk_tokens * CHARACTERS
            progress = many and Console().is_terminal
        found: np.ndarray | None = None
        bar = Progress(transient=True, disable=not progress)
        with evaluation_mode(self), torch.inference_mode(), bar:
            task = bar.add_task("Encoding", total=len(sentences))
            for rows, vectors in to_host(
                self._embed(sentences, chunk_tokens, share_prefix, normalize, dim, prompt)
            ):
                if found is None:
                    found = np.empty((len(sentences), vectors.shape[1]), dtype=np.float32)
                found[rows.numpy()] = vectors.numpy()
                bar.advance(task, len(rows))
        assert found is not None
        return found

    def _embed(
        self,
        sentences: list[str],
        chunk_tokens: int,
        share_prefix: bool,
        normalize: bool,
        dim: int | None,
        role: Role | None,
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Tokenise and embed slices of the sentences; yield the rows of each chunk, and its final vectors."""
        share: Callable[..., tuple[SharedPrefix | None, TokenizedBatch]] | None = None
        if share_prefix and self.causal and self.config.pooling == "last_token":
            from sts_lightning.models.compute.shared_prefix import can_share, split_prefix

            share = split_prefix if can_share(self.backbone) else None
        prefix: SharedPrefix | None = None
        bare: Any = None

        def embed(chunk: dict[str, Tensor]) -> Tensor:
            chunk = self._to_device(chunk)
            vectors = self.embed_chunk(chunk, prefix=prefix)
            return vectors - bare[chunk["baseline"]] if "baseline" in chunk else vectors

        within = partial(TokenBudget().embed, embed)
        # Reading inner layers registers hooks in the modules, which is not safe in threads.
        threaded = self.device.type == "cpu" and not self._reads_inner_layers
        # The texts of a slice have similar lengths, so that chunks are as dense as if all were tokenised at
        # once; what does not fit into the memory comes first.
        truncated = 0
        order = np.argsort([-len(text) for text in sentences], kind="stable")
        for start in range(0, len(order), SLICE):
            rows = np.sort(order[start : start + SLICE])
            texts = [sentences[row] for row in rows]
            batch = self.tokenizer.rows(
                texts, chunk_tokens, self.config.subtracts, self.config.text_edit, role
            )
            truncated += batch.truncated
            if share is not None:
                depth = self.backbone.config.num_hidden_layers
                prefix, batch = share(self.backbone, depth, batch, self.device)
            chunks, places = batch.chunks, batch.by_chunk(torch.arange(len(batch.restore)))
            if batch.baseline is not None:  # the bare templates are the last chunk
                *chunks, last = chunks
                *places, _ = places
                bare = within(last)
                chunks = [
                    chunk | {"baseline": batch.baseline[place]}
                    for chunk, place in zip(chunks, places, strict=True)
                ]
            embedded = embed_chunks(within, chunks, threaded)
            for place, pooled in zip(places, embedded, strict=True):
                vectors = self.project(pooled)[:, :dim]
                if normalize or (self.config.normalize and dim is not None):
                    vectors = F.normalize(vectors, dim=-1)
                yield torch.from_numpy(rows)[place], vectors
        if truncated and self.tells_truncation and Shard.current().process_rank == 0:
            log.warning(
                "WARNING: %s of %s texts are truncated after %s tokens; encoder.tokenizer."
                "set_evaluation_length sets another number.",
                f"{truncated:,}",
                f"{len(sentences):,}",
                self.tokenizer.evaluation_length or self.tokenizer.fits,
            )

    @staticmethod
    def similarity(vectors: np.ndarray, others: np.ndarray | None = None) -> np.ndarray:
        """Return the cosines of all pairs, ``u . v / (|u| |v|)``.

        Example:
            >>> encoder.similarity(encoder.encode(queries), encoder.encode(sentences)).argmax(axis=1)

        Args:
            vectors: Vectors, shape (N, D), of any length.
            others: Vectors, shape (M, D); by default the same ones.

        Returns:
            float32 array, shape (N, M), each in [-1, 1]; 0 for a vector of zeros.
        """
        first, second = (
            F.normalize(torch.from_numpy(np.asarray(rows, dtype=np.float32)), dim=-1)
            for rows in (vectors, vectors if others is None else others)
        )
        return np.asarray((first @ second.T).clamp(-1, 1).numpy())


def as_texts(sentences: Iterable[str]) -> list[str]:
    """Return sentences as a list.

    Raises:
        TypeError: They are one string, or something whose elements are not texts in an order.
    """
    if isinstance(sentences, str | bytes):
        raise TypeError("encode takes a list of sentences, not one string.")
    if isinstance(sentences, Mapping | Set) or hasattr(sentences, "columns"):
        raise TypeError(f"encode takes a list of sentences, not a {type(sentences).__name__}.")
    texts = list(sentences)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"encode takes a list of sentences, and element {number} is {text!r}, not a string."
            )
    return texts


def freeze(encoder: SentenceEncoder, frozen: Frozen) -> SentenceEncoder:
    """Exclude the weights of a frozen encoder from training, in place."""
    if frozen != "none":
        encoder.requires_grad_(False)
    return encoder


def pinned(base: Base, backbone: PreTrainedModel) -> Base:
    """Return a base with the commit of its files, if it is on the hub."""
    commit, name = getattr(backbone.config, "_commit_hash", None), base.name or ""
    return (
        base if "@" in name or Path(name).is_dir() or not commit else replace(base, name=f"{name}@{commit}")
    )


def position_offset(backbone: PreTrainedModel) -> int:
    """Return the position of a row's first token: RoBERTa's family counts from after its padding index."""
    for module in backbone.modules():
        table = getattr(module, "position_embeddings", None)
        if isinstance(table, nn.Embedding):
            return 0 if table.padding_idx is None else table.padding_idx + 1
    return 0


def most_positions(backbone: PreTrainedModel) -> int | None:
    """Return the maximum number of tokens of a row, None if there is no limit (T5, XLNet).

    In RoBERTa's family the positions up to the padding index are not for tokens.
    """
    config = backbone.config
    declared = [
        getattr(config, key, None) for key in ("max_encoder_position_embeddings", "max_position_embeddings")
    ]
    known = [count for count in declared if isinstance(count, int) and count > 0]
    return known[0] - position_offset(backbone) if known else None


def longest_sentence(backbone: PreTrainedModel, added: int, bidirectional_layers: int) -> int | None:
    """Return the maximum number of tokens of a sentence that a model can read, None if there is no limit.

    Args:
        backbone: Model.
        added: Number of further tokens of a row: template, special tokens and trained prefix.
        bidirectional_layers: Number of last layers that are made bidirectional, -1 for all. A row has to fit
            into their attention windows: the mask of the last token, which all tokens get, covers no more.
    """
    windows: Sequence[int | None] = ()
    if bidirectional_layers:
        from sts_lightning.models.compute.bidirectional import layer_windows

        windows = layer_windows(backbone.config, backbone.config.num_hidden_layers)
        windows = windows if bidirectional_layers == -1 else windows[-bidirectional_layers:]
    known = [count for count in (most_positions(backbone), *windows) if count is not None]
    return min(known) - added if known else None


READABLE = ("cpu",)
"""Devices where a look costs nothing; there attention is faster without a mask, where none is needed."""

_unread = ContextVar("unread", default=False)
"""Whether rows are those of an encoder, one text each; a thread has its own value."""


@contextmanager
def one_text_a_row() -> Iterator[None]:
    """Let transformers make the masks of a forward pass without reading positions and padding.

    It looks for rows of several texts, of which there are none here, and on a GPU for a batch without
    padding, whose mask it would leave out. Forward passes outside of this context are not affected.
    """
    token = _unread.set(True)
    try:
        yield
    finally:
        _unread.reset(token)


def _unless_unread(find: Any) -> Any:
    @wraps(find)
    def wrapped(position_ids: Tensor) -> Any:
        return None if _unread.get() else find(position_ids)

    return wrapped


def _made_on_a_gpu(make: Any) -> Any:
    @wraps(make)
    def wrapped(*args: Any, attention_mask: Tensor | None = None, **options: Any) -> Any:
        padded = attention_mask is not None and attention_mask.device.type not in READABLE
        if _unread.get() and padded:
            options |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
        return make(*args, attention_mask=attention_mask, **options)

    return wrapped


# transformers has no argument for either.
masking_utils.find_packed_sequence_indices = _unless_unread(masking_utils.find_packed_sequence_indices)
for _name in ("sdpa", "eager"):
    _make = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS[_name]
    masking_utils.ALL_MASK_ATTENTION_FUNCTIONS.register(_name, _made_on_a_gpu(_make))
