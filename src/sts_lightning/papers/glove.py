"""GloVe: word vectors of a text file, averaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BatchEncoding, PreTrainedTokenizerFast

from sts_lightning.core.errors import DataError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.encoding import EncodingConfig, takes_settings
from sts_lightning.models.loading.static_embeddings import PADDING, StaticModel

UNKNOWN = "[UNK]"

MANY_BLANKS = 10
"""Blanks of an entry that is none of GloVe's few with blanks, but two lines that were joined."""


@takes_settings(EncodingConfig)
def glove(path: str, **settings: Any) -> SentenceEncoder:
    r"""Build an encoder that averages the vectors of a sentence's words.

    .. math:: f(s) = \frac{1}{|K|} \sum_{w \in K} v_w

    where K are the known words of the sentence, in SentEval's sense (its `bag of words
    <https://github.com/facebookresearch/SentEval/blob/main/examples/bow.py>`_): the text is split at white
    space, words are looked up as they are, unknown ones are left out, and a sentence without known words is
    the zero vector. Stop words count.

    Use it as a baseline without a transformer; GloVe's average is 81.52 on SentEval's transfer tasks.

    Args:
        path: Text file of vectors, one word a line followed by its numbers, all separated by blanks.
        **settings: Fields of `EncodingConfig`; ``max_length`` counts known words.

    Raises:
        ValueError: The path is missing, or a template is given.
        DataError: The file cannot be read or is malformed.
    """
    if not path:
        raise ValueError("path is required: a text file of word vectors, such as glove.840B.300d.txt.")
    if settings.get("template") is not None:
        raise ValueError("template has no meaning for an average of words; use prompt=none.")
    vectors = read_vectors(Path(path))
    inner = Tokenizer(
        models.WordLevel(dict(zip(vectors, range(len(vectors)), strict=True)), unk_token=UNKNOWN)
    )
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = KnownWords(tokenizer_object=inner, pad_token=PADDING)  # type: ignore[no-untyped-call]
    tokenizer.known = frozenset(vectors)
    return SentenceEncoder(
        StaticModel.of(torch.from_numpy(np.stack(list(vectors.values())))), tokenizer, **settings
    )


class KnownWords(PreTrainedTokenizerFast):
    """Tokenizer that drops unknown words, of which an average would count the vector."""

    known: frozenset[str]

    def __call__(self, text: Any = None, *arguments: Any, **settings: Any) -> BatchEncoding:
        """Tokenise a text, or a list of texts."""
        kept = self.keep(text) if isinstance(text, str) else [self.keep(sentence) for sentence in text]
        encoded: BatchEncoding = super().__call__(kept, *arguments, **settings)
        return encoded

    def keep(self, text: str) -> str:
        """Return the known words of a text, joined by blanks."""
        return " ".join(word for word in text.split() if word in self.known)


def read_vectors(path: Path) -> dict[str, np.ndarray]:
    """Read a text file of word vectors, (D,) in float32 by word.

    GloVe's few entries that contain a blank can match no word and are left out. Of equal words the last one
    counts.

    Raises:
        DataError: The file cannot be read, or a line is malformed.
    """
    vectors: dict[str, np.ndarray] = {}
    size = 0
    number = 0
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                number += 1
                fields = line.rstrip().split(" ")
                size = size or len(fields) - 1
                vector = np.array(fields[len(fields) - size :], dtype=np.float32)
                if not 0 < size < len(fields) <= size + MANY_BLANKS or not np.isfinite(vector).all():
                    raise ValueError
                if len(fields) == size + 1:
                    vectors[fields[0]] = vector
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror}).", path) from error
    except ValueError as error:
        raise DataError(
            f"expected a word and {size or 'some'} finite numbers in UTF-8.", path, number
        ) from error
    if not vectors:
        raise DataError("the file has no word vectors.", path)
    return vectors
