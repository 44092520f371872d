"""Files of a tokenizer, with the template as a part, which every library then puts around each sentence."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import AutoTokenizer
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from sts_lightning.core.errors import ConfigError
from sts_lightning.models.text.template import BARE
from sts_lightning.models.text.tokenize import SentenceTokenizer

STARTS = ("", " ", "\n", '"', "'", "(", "-", "...", "$", "#", "7", "A ", "Ü", "\u0301", "🙂")
MIDDLES = (
    *("", "x", "A Dog runs", "3 men, 12.5 km", "it's John's", "naïve Café", "漢字とかな", "한국어", "Привет"),
    *("🙂👍🏽", "e.g. U.S.A", "a  b", "http://a.b/c?d=e&f", "it's", "x_y", "don't", "THE END", "ﬁve", "µ²"),
)
ENDS = ("", " ", "\n", ".", "?", "!", ",", ":", '"', "'", ")", "...", "%", "s", "'s", ' ."', "0", "é", "🙂")
"""Starts, middles and ends of the sentences that are compared: what a tokenizer may join with a template."""


def save_tokenizer(rows: SentenceTokenizer, folder: Path) -> None:
    """Write a tokenizer without the template, with the number of the model's positions as its limit.

    The limit of the base model's tokenizer would truncate the end of a template.
    """
    tokenizer = rows.tokenizer
    tokenizer.chat_template = None  # with one, sentence-transformers 6 takes sentences for messages
    tokenizer.model_max_length = (
        VERY_LARGE_INTEGER if rows.lengths.positions is None else rows.lengths.positions + rows.lengths.added
    )
    tokenizer.save_pretrained(folder)


def save_with_template(rows: SentenceTokenizer, folder: Path) -> None:
    """Write a tokenizer whose post-processor puts the template's tokens around those of a sentence.

    It truncates and pads too, for users of the library tokenizers alone. A truncated row has as many tokens
    as here; only a character that the limit cuts into its bytes is left out here, while there its first bytes
    remain.

    Args:
        rows: Tokenisation of the run.
        folder: Output folder.

    Raises:
        ConfigError: The tokens of a sentence in the template are others than those of the sentence alone, as
            with byte-level BPE where the template has a quotation mark directly after the sentence.
    """
    # With prompts by role a text has its prompt already.
    tokenizer, template, length = rows.tokenizer, None if rows.roles else rows.template, rows.row_tokens
    tokenizer.chat_template = None  # as in `save_tokenizer`
    tokenizer.save_pretrained(folder)
    file, settings_file = folder / "tokenizer.json", folder / "tokenizer_config.json"
    content, settings = (json.loads(path.read_text("utf-8")) for path in (file, settings_file))
    if template is not None:
        settings[BARE] = content["post_processor"]
        # Other classes of transformers build the post-processor anew, from their special tokens.
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
        settings.pop("auto_map", None)
        content["post_processor"] = _around(rows, template)
    settings["model_max_length"] = VERY_LARGE_INTEGER if length is None else length
    settings_file.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", "utf-8")
    backend = Tokenizer.from_str(json.dumps(content))
    if length is None:
        backend.no_truncation()
    else:
        backend.enable_truncation(length)
    backend.enable_padding(pad_id=tokenizer.pad_token_id, pad_token=tokenizer.pad_token)
    backend.save(str(file))
    if template is not None:
        _compare(rows, folder)


def _around(rows: SentenceTokenizer, template: str) -> dict[str, Any]:
    """Return a post-processor in which each token of the template is a piece of its own."""
    before, after = rows.split(template)
    tokens = {number: str(rows.tokenizer.convert_ids_to_tokens(number)) for number in (*before, *after)}

    def pieces(ids: list[int]) -> list[dict[str, Any]]:
        return [{"SpecialToken": {"id": tokens[number], "type_id": 0}} for number in ids]

    first, second = ({"Sequence": {"id": name, "type_id": number}} for number, name in enumerate("AB"))
    return {
        "type": "TemplateProcessing",
        "single": [*pieces(before), first, *pieces(after)],
        "pair": [first, second],
        "special_tokens": {
            token: {"id": token, "ids": [number], "tokens": [token]} for number, token in tokens.items()
        },
    }


def _compare(rows: SentenceTokenizer, folder: Path) -> None:
    words = " ".join(middle for middle in MIDDLES if middle.isascii())
    long = [f"{words} " * (2 + (rows.row_tokens or 0) // len(words.split())) + end for end in ENDS]
    pairs = *product(STARTS, MIDDLES), *product(MIDDLES, ENDS), *product(STARTS, ENDS)
    texts = [*map("".join, pairs), *long]
    theirs = AutoTokenizer.from_pretrained(folder)(texts, truncation=rows.row_tokens is not None)["input_ids"]
    for text, own, other in zip(texts, rows(texts), theirs, strict=True):
        if own != other:
            shown = text if len(text) < 40 else f"{text[:40]}..."
            raise ConfigError(f"the template changes the tokens of a sentence beside it, such as {shown!r}")
