"""Text of the STS files as SentEval's script prepares it."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any


@cache
def _tokenizer() -> Any:
    from sacremoses import MosesTokenizer  # half a second, which raw text does not need

    return MosesTokenizer("en")


@lru_cache(maxsize=1 << 17)
def prepare(sentence: str, lower: bool = True) -> str:
    """Tokenise a sentence as SentEval's script does, and lower-case it.

    The script pipes STS12-16 and STS-B through Moses' ``tokenizer.perl -l en -no-escape`` and
    ``lowercase.perl``, SICK through the first alone:
    https://github.com/facebookresearch/SentEval/blob/2a7c3da8fc6f16d8f7aa5acd13d98b0a052a27a9/data/downstream/get_transfer_data.bash#L101

    Since November 2018 Moses detaches the final period of a sentence from any word, abbreviations too, which
    sacremoses does not: https://github.com/moses-smt/mosesdecoder/commit/9fc964da7. With that rule its
    output equals the scripts' on every sentence of the STS and SICK files.

    Args:
        sentence: Raw sentence.
        lower: Whether to lower-case it; False for SICK.
    """
    words: list[str] = _tokenizer().tokenize(sentence, escape=False)
    if words and words[-1].endswith(".") and words[-1].strip("."):
        words[-1:] = [words[-1][:-1], "."]
    text = " ".join(words)
    return text.lower() if lower else text
