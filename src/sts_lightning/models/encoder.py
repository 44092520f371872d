"""Sentence encoder: template, tokenizer, backbone and pooling as one object."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import Progress
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from sts_lightning.core.choices import DtypeName, Frozen, Quantization, Role, TextEdit
from sts_lightning.core.errors import ConfigError
from sts_lightning.core.hardware import encoding_chunk_tokens
from sts_lightning.core.processes import Shard
from sts_lightning.models.chunk_encoder import ChunkEncoder, reads_causally
from sts_lightning.models.compute.budget import TokenBudget
from sts_lightning.models.encoding import Base, EncodingConfig, takes_settings
from sts_lightning.models.loading.backbone import Loader, load_backbone
from sts_lightning.models.same_vectors import PROBES, same_vectors
from sts_lightning.models.text.chunks import TokenizedBatch, to_device
from sts_lightning.models.text.lengths import most_positions, position_offset
from sts_lightning.models.text.tokenize import SentenceTokenizer

if TYPE_CHECKING:
    from peft import PeftConfig

    from sts_lightning.models.compute.shared_prefix import SharedPrefix


log = logging.getLogger(__name__)

MANY_CHUNKS, CHARACTERS = 50, 4
"""Number of chunks from which a progress bar is shown, and characters of a token, about."""

SLICE = 8192
"""Number of texts that are tokenised at once: more would wait for no gain, and fill the memory."""


class SentenceEncoder(ChunkEncoder):
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
        config = EncodingConfig(**settings)
        # Padding on the left would shift the positions of BERT's family.
        tokenizer.padding_side = "right"
        causal = reads_causally(backbone, config)
        rows = SentenceTokenizer(
            tokenizer,
            config,
            positions=most_positions(backbone, config.bidirectional_layers),
            prefix=getattr(adapter, "num_virtual_tokens", None) or 0,
            position_offset=position_offset(backbone),
            share_rows=causal and config.pooling == "last_token" and config.denoise == "none",
        )
        super().__init__(backbone, config, adapter, projector)
        self.tokenizer = rows
        self.base = base
        self.tells_truncation = True
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
            device: Device that the weights are loaded to.
            adapter: Settings of a new peft adapter.
            loader: Function that returns backbone and tokenizer.
            **settings: Fields of `EncodingConfig`.
        """
        base = Base(name, dtype, quantization, config or {})
        backbone, tokenizer = loader(base, trust_remote_code, device)
        return cls(backbone, tokenizer, adapter=adapter, base=pinned(base, backbone), **settings)

    @property
    def evaluation_text(self) -> dict[str, str | int | None]:
        """What evaluation does with a sentence, for the metrics of a run."""
        return {"text_edit": self.config.text_edit, "max_length": self.tokenizer.lengths.eval}

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
        self.tokenizer.set_evaluation(changed, max_length)
        self.config = changed
        return self

    def prepare(self, chunk_tokens: int, training: bool, launch: int = 0) -> Callable[..., TokenizedBatch]:
        """Return the function that turns the sentences of views into the input of `forward`.

        Args:
            chunk_tokens: Maximum number of tokens of a chunk, padding included.
            training: Whether to tokenise as in training: with the templates of the views, and with the bare
                templates to subtract; otherwise as `encode` does.
            launch: See `Division`.

        Returns:
            The function. With ``training``, prompts by role are those of the views, first and further ones,
            unless it gets ``by_role=False``; otherwise its keyword ``role`` is that of all texts.
        """
        tokenizer = self.tokenizer  # not the encoder: worker processes would receive all weights
        rows = tokenizer.training_rows if training else tokenizer.evaluation_rows
        return partial(rows, chunk_tokens=chunk_tokens, launch=launch)

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
        short, chunk = (self.tokenizer.rows(texts, 10**9).chunks[0] for texts in (PROBES[:1], PROBES))
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
        if not same_vectors(alone, beside[chunk["attention_mask"].sum(dim=1).argmin()], backbone):
            raise ConfigError(
                f"{name} does not ignore padding: the vector of a sentence changes beside a longer one. "
                "Choose another model."
            )
        if not self._takes_embeddings:
            return False
        embedded = self.backbone.get_input_embeddings()(chunk["input_ids"])
        return same_vectors(beside, self.embed_chunk(chunk, {"inputs_embeds": embedded}), backbone)

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
        found = np.empty((len(sentences), dim or self.dimension), dtype=np.float32)
        bar = Progress(transient=True, disable=not progress)
        with evaluation_mode(self), torch.inference_mode(), bar:
            task = bar.add_task("Encoding", total=len(sentences))
            for rows, vectors in _to_host(
                self._embed(sentences, chunk_tokens, share_prefix, normalize, dim, prompt)
            ):
                found[rows.numpy()] = vectors.numpy()
                bar.advance(task, len(rows))
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
        share_prefix = share_prefix and self.causal and self.config.pooling == "last_token"
        prefix: SharedPrefix | None = None

        def embed(chunk: dict[str, Tensor]) -> Tensor:
            return self.embed_chunk(self._to_device(chunk), prefix=prefix)

        within = partial(TokenBudget().embed, embed)
        # Reading inner layers registers hooks in the modules, which is not safe in threads.
        threaded = self.device.type == "cpu" and not self._reads_inner_layers
        # The texts of a slice have similar lengths, so that chunks are as dense as if all were tokenised at
        # once; what does not fit into the memory comes first.
        truncated, launch = 0, self.launch_tokens()
        order = np.argsort([-len(text) for text in sentences], kind="stable")
        for start in range(0, len(order), SLICE):
            rows = np.sort(order[start : start + SLICE])
            texts = [sentences[row] for row in rows]
            batch = self.tokenizer.rows(texts, chunk_tokens, role, launch)
            truncated += batch.truncated
            if share_prefix:
                from sts_lightning.models.compute.shared_prefix import split_prefix  # of decoders

                prefix, batch = split_prefix(self.backbone, self.plain_backbone, batch)
            chunks, places = batch.chunks, batch.by_chunk(torch.arange(len(batch.order)))
            bare: Tensor | None = None
            if batch.baseline is not None:  # the bare templates are the last chunk
                *chunks, last = chunks
                bare, places = within(last), places[:-1]
            embedded = _embed_chunks(within, chunks, threaded)
            for place, pooled in zip(places, embedded, strict=True):
                if bare is not None and batch.baseline is not None:
                    pooled = pooled - bare[to_device(batch.baseline[place], bare.device)]
                vectors = self.project(pooled)[:, :dim]
                if normalize or (self.config.normalize and dim is not None):
                    vectors = F.normalize(vectors, dim=-1)
                yield torch.from_numpy(rows)[place], vectors
        if truncated and self.tells_truncation and Shard.current().process_rank == 0:
            log.warning(
                "WARNING: %s of %s texts are truncated after %s tokens; encoder.set_evaluation sets "
                "another number.",
                f"{truncated:,}",
                f"{len(sentences):,}",
                self.tokenizer.lengths.eval or self.tokenizer.lengths.positions,
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


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode, and each of its sub-modules back into its mode at the end."""
    modes = [(child, child.training) for child in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for child, training in modes:  # one flag for all would wake the dropout of frozen ones
            child.training = training


def _embed_chunks(
    embed: Callable[[dict[str, Tensor]], Tensor], chunks: Sequence[dict[str, Tensor]], threaded: bool
) -> Iterator[Tensor]:
    """Yield the vectors of each chunk in order, computed one after the other, or in threads of one core each.

    A transformer's many small operations gain more from a thread for each chunk than from splitting each of
    them among the threads.

    Args:
        embed: Function from a chunk of n rows to vectors, (n, D).
        chunks: Padded chunks of token ids.
        threaded: Whether to run chunks in parallel on the CPU.
    """
    if not threaded or len(chunks) < 2:
        yield from map(embed, chunks)
        return
    threads = torch.get_num_threads()
    inference = torch.inference_mode()(embed)  # the mode belongs to a thread, and new threads start without
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as executor:
            yield from executor.map(inference, chunks)
    finally:
        torch.set_num_threads(threads)


def _to_host(parts: Iterable[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield rows and their vectors in order, with the vectors on the host.

    Those of a GPU come once they have arrived; meanwhile it gets its next work.
    """
    late: deque[tuple[Tensor, Tensor, torch.cuda.Event]] = deque()
    for rows, vectors in parts:
        if vectors.device.type != "cuda":
            yield rows, vectors.cpu()
            continue
        arrived = vectors.to("cpu", non_blocking=True)  # into pinned memory
        event = torch.cuda.Event()
        # Not on the current device's stream, which may be another card's.
        event.record(torch.cuda.current_stream(vectors.device))
        late.append((rows, arrived, event))
        while late and late[0][2].query():
            yield late.popleft()[:2]
    for rows, arrived, event in late:
        event.synchronize()
        yield rows, arrived


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
