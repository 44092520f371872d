"""Average of word vectors, such as GloVe's: the oldest baseline of the field."""

from __future__ import annotations

import logging
import re
import string
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn
from transformers import BatchEncoding, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.modeling_outputs import BaseModelOutput

from sts_lightning.errors import DataError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.encoder_checks import EncoderSettings

log = logging.getLogger(__name__)

Lookup = Literal["exact", "relaxed"]
"""How a word of a sentence is looked up.

``exact``: as it is, as SentEval does on its tokenised files. ``relaxed``: if that fails, without the
punctuation around it, and then in lower case, as sentence-transformers does.
"""

PAD, UNKNOWN = "[PAD]", "[UNK]"

MANY_BLANKS = 10
"""Blanks from which an entry is none of GloVe's few with blanks, but two lines that were joined."""


def word_vectors(
    path: str, lookup: Lookup = "relaxed", **settings: Unpack[EncoderSettings]
) -> SentenceEncoder:
    r"""Build an encoder that averages the vectors of a sentence's words.

    .. math:: f(s) = \frac{1}{|K|} \sum_{w \in K} v_w

    where K are the known words of the sentence, in SentEval's sense (its `bag of words
    <https://github.com/facebookresearch/SentEval/blob/main/examples/bow.py>`_): the text is split at white
    space, unknown words are left out, and a sentence without known words is the zero vector. Stop words
    count. The vectors can be trained like any model's.

    Use it as a baseline without a transformer; GloVe's average is 81.52 on SentEval's transfer tasks.

    Args:
        path: Text file of vectors, one word a line followed by its numbers, all separated by blanks (GloVe's
            format), optionally after a line with the two counts (word2vec's).
        lookup: How a word is looked up.
        **settings: Settings of `SentenceEncoder`; ``max_length`` counts known words.

    Raises:
        ValueError: The path is missing, the look-up is unknown, or a template is given.
        DataError: The file cannot be read or is malformed.
    """
    if not path:
        raise ValueError("path is required: a text file of word vectors, such as glove.840B.300d.txt.")
    if lookup not in get_args(Lookup):
        raise ValueError(f"lookup must be one of {', '.join(get_args(Lookup))}, got {lookup!r}.")
    if settings.get("template") is not None:
        raise ValueError("template has no meaning for an average of words; use prompt=none.")
    words, vectors = read_vectors(Path(path))
    backbone = WordVectorModel(WordVectorConfig(vocab_size=len(vectors) + 2, hidden_size=vectors.shape[1]))
    with torch.no_grad():
        backbone.embeddings.weight[:2] = 0.0
        backbone.embeddings.weight[2:] = torch.from_numpy(vectors)
    vocabulary = {PAD: 0, UNKNOWN: 1} | {word: index for index, word in enumerate(words, start=2)}
    return SentenceEncoder(backbone, word_tokenizer(vocabulary, lookup), **settings)


def read_vectors(path: Path) -> tuple[list[str], np.ndarray]:
    """Read a text file of word vectors.

    Entries that contain a blank, of which GloVe has a few, can match no word and are left out. Of equal words
    the last one counts.

    Args:
        path: The file, see `word_vectors`.

    Returns:
        The words, and their vectors, (N, D) in float32.

    Raises:
        DataError: The file cannot be read, or a line is malformed.
    """
    found: dict[str, np.ndarray] = {}
    counts: tuple[int, int] | None = None
    size, spaced, lines = 0, 0, 0
    for number, line in _lines(path):
        fields = line.rstrip().split(" ")
        if number == 1 and len(fields) == 2 and all(re.fullmatch("[0-9]{1,18}", field) for field in fields):
            counts = int(fields[0]), int(fields[1])  # word2vec's
            continue
        lines += 1
        size = size or (len(fields) - 1 if counts is None else counts[1])
        word = " ".join(fields[: len(fields) - size])
        vector = _numbers(fields[len(fields) - size :])
        blanks = word.count(" ")
        if not word or size == 0 or len(fields) <= size or vector is None or blanks >= max(size, MANY_BLANKS):
            raise DataError(f"expected a word and {size or 'some'} finite numbers.", path, number)
        if blanks:
            spaced += 1
        else:
            found[word] = vector
    if not found:
        raise DataError("the file has no word vectors.", path)
    if counts is not None and counts[0] != lines:
        raise DataError(f"the first line announces {counts[0]:,} words, but {lines:,} follow.", path, 1)
    if spaced > len(found):
        raise DataError(f"{spaced:,} lines have more numbers than the first, which has {size}.", path, 1)
    log.info("%s: %s words of %d dimensions", path.name, f"{len(found):,}", size)
    if spaced:
        log.info("%s: %d entries contain a blank and are left out", path.name, spaced)
    return list(found), np.stack(list(found.values()))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line."""
    number = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                if "\0" in text:
                    raise DataError("contains a NUL character.", path, number)
                yield number, text
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror}).", path) from error
    except UnicodeDecodeError as error:
        raise DataError(f"byte 0x{error.object[error.start]:02x} is not UTF-8.", path, number) from error


def _numbers(fields: Sequence[str]) -> np.ndarray | None:
    """Convert text to float32, None if it is not all finite numbers in ASCII."""
    text = " ".join(fields)
    if "_" in text or not text.isascii():  # NumPy reads 1_0 and the digits of other scripts
        return None
    try:
        with np.errstate(over="ignore"):
            values = np.array(fields, dtype=np.float32)
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None


class WordVectorConfig(PreTrainedConfig):
    """Sizes of a table of word vectors."""

    model_type = "word_vectors"

    def __init__(self, vocab_size: int = 2, hidden_size: int = 1, **settings: Any) -> None:
        super().__init__(**settings)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = 1


class WordVectorModel(PreTrainedModel):
    """Backbone whose hidden states are the vectors of the words themselves."""

    config_class = WordVectorConfig

    def __init__(self, config: WordVectorConfig) -> None:
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=0)
        self.post_init()  # type: ignore[no-untyped-call]

    def get_input_embeddings(self) -> nn.Module:
        """Return the table."""
        return self.embeddings

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool = False,
    ) -> BaseModelOutput:
        """Look up the words, (N, L) -> (N, L, D); a word's vector does not depend on the others."""
        hidden = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        return BaseModelOutput(
            last_hidden_state=hidden, hidden_states=(hidden, hidden) if output_hidden_states else None
        )


class WordTokenizer(PreTrainedTokenizerFast):
    """Tokenizer that splits at white space and drops unknown words; made by `word_tokenizer`."""

    lookup: Lookup = "exact"
    known: dict[str, int]

    def __call__(self, text: Any = None, *arguments: Any, **settings: Any) -> BatchEncoding:
        """Tokenise one text or several."""
        kept = self.keep(text) if isinstance(text, str) else [self.keep(one) for one in text]
        encoded: BatchEncoding = super().__call__(kept, *arguments, **settings)
        return encoded

    def keep(self, text: str) -> str:
        """Return the known words of a text, in the form in which they are known, joined by blanks."""
        found = (self._find(word) for word in text.split())
        return " ".join(word for word in found if word is not None)

    def _find(self, word: str) -> str | None:
        if word in self.known:
            return word
        if self.lookup == "exact":
            return None
        bare = word.strip(string.punctuation)
        return next((form for form in (bare, bare.lower()) if form in self.known), None)


def word_tokenizer(vocabulary: dict[str, int], lookup: Lookup) -> WordTokenizer:
    """Build the tokenizer of a vocabulary, whose first two entries are for padding and unknown words."""
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = WordTokenizer(  # type: ignore[no-untyped-call]
        tokenizer_object=inner, unk_token=UNKNOWN, pad_token=PAD
    )
    tokenizer.lookup = lookup
    tokenizer.known = {word: index for word, index in vocabulary.items() if word not in (PAD, UNKNOWN)}
    return tokenizer
