"""Padded chunks of token ids to vectors: backbone, pooling and projection."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from sts_lightning.core.cards import Card
from sts_lightning.core.choices import Precision
from sts_lightning.core.errors import ConfigError
from sts_lightning.core.hardware import local_card, prepare_gpu
from sts_lightning.models.compute.budget import TokenBudget
from sts_lightning.models.compute.cpu_attention import half_attention
from sts_lightning.models.compute.gradient_cache import recomputed, same_draws
from sts_lightning.models.compute.masks import skip_mask_inspection
from sts_lightning.models.encoding import EncodingConfig
from sts_lightning.models.loading.backbone import DTYPES, is_causal
from sts_lightning.models.pooling import make_projection, pool, width
from sts_lightning.models.text.chunks import TokenizedBatch, to_device

if TYPE_CHECKING:
    from peft import PeftConfig, PeftModel

    from sts_lightning.models.compute.shared_prefix import SharedPrefix


class ChunkEncoder(nn.Module):
    """Maps chunks of token ids to vectors; it knows no text.

    Args:
        backbone: Transformer without a head, whose output has ``last_hidden_state``.
        config: Settings, of which those of texts are not read.
        adapter: Settings of a peft adapter; the backbone's own weights are then frozen.
        projector: Layers of the projection; by default new ones.

    Attributes:
        causal: Whether no token attends to later ones.

    Raises:
        ValueError: A setting does not fit the backbone.
        ConfigError: The backbone is not supported.
    """

    backbone: PreTrainedModel | PeftModel

    def __init__(
        self,
        backbone: PreTrainedModel,
        config: EncodingConfig,
        adapter: PeftConfig | None = None,
        projector: nn.Sequential | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        depth = backbone.config.num_hidden_layers
        if config.layer < -depth:
            raise ValueError(f"layer must lie between {-depth} and -1, the last layer, got {config.layer}.")
        inputs = inspect.signature(backbone.forward).parameters
        if config.denoise != "none" and "position_ids" not in inputs:
            raise ValueError(
                f"denoise {config.denoise!r} needs a model that takes position_ids, which "
                f"{type(backbone).__name__} does not; "
                "set prompt.denoise=none."
            )
        self.causal = reads_causally(backbone, config)
        self._reads_inner_layers = config.pooling == "first_last_mean" or config.layer != -1
        self._takes_embeddings = "inputs_embeds" in inputs
        if config.bidirectional_layers:
            from sts_lightning.models.compute.bidirectional import make_bidirectional

            make_bidirectional(backbone, config.bidirectional_layers)
        # A new projection draws its weights before a new adapter does: checkpoints do not depend on it, but
        # the numbers of a seed do.
        if config.projection != "none":
            layers = projector or make_projection(backbone.config, config.projection)
            self.projector = layers.to(backbone.device)
        self.backbone = backbone
        if adapter is not None:
            from sts_lightning.models.loading.adapters import add_adapter

            self.backbone = add_adapter(backbone, adapter)
        self._arrived()  # quantised weights have been loaded to the GPU

    @property
    def plain_backbone(self) -> PreTrainedModel:
        """Backbone without the wrapper of its adapter."""
        backbone: Any = self.backbone
        model: PreTrainedModel = (
            backbone.get_base_model() if hasattr(backbone, "get_base_model") else backbone
        )
        return model

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device

    def _apply(self, *args: Any, **options: Any) -> Self:
        super()._apply(*args, **options)  # type: ignore[no-untyped-call]
        if getattr(self.plain_backbone, "is_quantized", False):
            from sts_lightning.models.loading.quantization import follow_weights

            follow_weights(self)
        self._arrived()
        return self

    def _arrived(self) -> None:
        if self.device.type == "cuda":
            prepare_gpu(self.device)

    def launch_tokens(self, card: Card | None = None, precision: str | None = None) -> int:
        """Return `Card.launch_tokens` of this encoder.

        Args:
            card: The card; by default that of the weights.
            precision: Precision, in Lightning's names; by default that of the weights.
        """
        if card is None:
            if self.device.type != "cuda":
                return 0
            card = local_card(self.device)
        backbone, count = self.plain_backbone, 0
        for layer in backbone.modules():
            if isinstance(layer, nn.Linear):  # a quantised matrix is stored in another shape
                count += layer.in_features * layer.out_features
            elif not isinstance(layer, nn.Embedding):
                count += sum(weight.numel() for weight in layer.parameters(recurse=False) if weight.ndim == 2)
        layers, adapted = backbone.config.num_hidden_layers, backbone is not self.backbone
        return card.launch_tokens(precision or self.precision, layers, count, adapted)

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

        def contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
            # A layer is computed again outside of the forward pass, and so of its form of attention.
            again = half_attention(self.backbone) if self.device.type == "cpu" else same_draws(self.device)
            return nullcontext(), again

        try:
            self.backbone.activation_checkpointing_enable({"use_reentrant": False, "context_fn": contexts})
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

    def forward(
        self,
        rows: TokenizedBatch,
        kept: int | None = None,
        project: bool = True,
    ) -> Tensor:
        """Embed tokenised sentences: chunk by chunk through the backbone and the pooling, then `project`.

        The vectors of the chunks are put back in order, so that the result and the gradient are those of one
        padded block. In evaluation, chunks become smaller where memory runs out.

        Args:
            rows: Tokenised sentences.
            kept: Number of the last chunks whose activations are kept; None for all. The others are
                recomputed with the same dropout in the backward pass, one after the other, which takes the
                memory of one chunk (gradient cache, see `recomputed`). It begins with the last ones.
            project: Whether to apply `project`; otherwise the vectors are the pooled ones.

        Returns:
            Vectors in float32, shape (N, D); (V * N, D), view-major, of rows that hold V views each.
        """
        if torch.is_grad_enabled() or self.training:
            kept = len(rows.chunks) if kept is None else kept
            again = partial(recomputed, self.device, self.embed_chunk)
            runs = [again] * (len(rows.chunks) - kept) + [self.embed_chunk] * kept
            inputs = zip(runs, rows.chunks, self._look_up(rows.chunks), strict=True)
            vectors = torch.cat([run(chunk, embedded) for run, chunk, embedded in inputs])
        else:
            within = partial(TokenBudget().embed, self.embed_chunk)
            vectors = torch.cat(list(map(within, rows.chunks)))
        vectors = rows.in_sentence_order(vectors)
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
                ``view_positions``.
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
        half = self.backbone.dtype != torch.float32 or torch.is_autocast_enabled("cpu")
        attention = half_attention(self.backbone) if half else nullcontext()
        with skip_mask_inspection(), attention:
            output = self.backbone(**inputs, output_hidden_states=self._reads_inner_layers)
        if self.config.layer != -1:
            hidden = (output.hidden_states[self.config.layer],)
        else:
            hidden = output.hidden_states if self._reads_inner_layers else (output.last_hidden_state,)
        if (at := chunk.get("view_positions")) is not None:
            vectors: Tensor = hidden[-1][torch.arange(len(at), device=at.device)[:, None], at]
            return vectors.float()
        return pool(self.config.pooling, hidden, chunk["attention_mask"], chunk.get("mask_at"))


def reads_causally(backbone: PreTrainedModel, config: EncodingConfig) -> bool:
    """Return whether no token of a backbone attends to later ones, in any layer of the encoder."""
    return config.bidirectional_layers == 0 and is_causal(backbone)
