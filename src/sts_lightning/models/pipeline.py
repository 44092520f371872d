"""What turns a sentence into a vector, besides the transformer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sts_lightning.choices import TextEdit
from sts_lightning.models.pooling import Pooling


@dataclass(frozen=True)
class Dense:
    """Linear layer on top of the pooled vector.

    Attributes:
        path: Folder of the layer inside the model's.
        inputs: Size of its input.
        outputs: Size of its output.
        bias: Whether it has a bias.
        activation: Name of its activation, a class of ``torch.nn``.
    """

    path: str
    inputs: int
    outputs: int
    bias: bool
    activation: str


@dataclass(frozen=True)
class Pipeline:
    """What turns a sentence into a vector, besides the transformer.

    Attributes:
        source: File that describes it.
        pooling: See `Pooling`.
        row_tokens: Number of tokens after which a row is cut, special tokens and template included.
        sentence_tokens: The same for the bare sentence in a template.
        template: Text around each sentence, of this project's exports.
        prompts: Texts that can be put before a sentence, by name.
        default_prompt: Name of the prompt that is used if none is chosen.
        include_prompt: Whether the tokens of a prompt are pooled too.
        text_edit: Edit of each sentence.
        lower_case: Whether texts are lower-cased first.
        dense: Linear layers on top.
        normalize: Whether vectors are scaled to length 1.
        layer: Layer whose output is pooled.
        similarity: Similarity that the model was trained for, in the words of sentence-transformers.
        bidirectional_layers: Number of last layers of a causal model that are bidirectional.
    """

    source: str
    pooling: Pooling = "mean"
    row_tokens: int | None = None
    sentence_tokens: int | None = None
    template: str | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    include_prompt: bool = True
    text_edit: TextEdit = "none"
    lower_case: bool = False
    dense: Sequence[Dense] = ()
    normalize: bool = False
    layer: int = -1
    similarity: str = "cosine"
    bidirectional_layers: int = 0
