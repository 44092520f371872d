"""Check that a tokenizer belongs to a model."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from sts_lightning.errors import CheckpointError

PLAIN_SENTENCE = "The small dog runs over the green hill."


def check_vocabulary(tokenizer: PreTrainedTokenizerBase, backbone: PreTrainedModel, name: str) -> None:
    """Reject a tokenizer that knows no words, or that has tokens for which the model has no embedding.

    Without tokenizer files the library builds an empty tokenizer, to which every token is unknown.
    Training with it would run without an error.

    Args:
        tokenizer: Tokenizer as loaded.
        backbone: Model as loaded.
        name: Hub id or folder, for the message.

    Raises:
        CheckpointError: A plain sentence has no known token, or the embedding table has no row for a token.
    """
    if not _knows_words(tokenizer):
        raise CheckpointError(
            f"{name}: the tokenizer knows no word of {PLAIN_SENTENCE!r} (it has {len(tokenizer)} entries); "
            "the tokenizer files are missing or belong to something else. Put those of the model beside "
            "config.json: tokenizer.json, or the vocabulary (vocab.txt; vocab.json and merges.txt; "
            "tokenizer.model or spiece.model) with tokenizer_config.json."
        )
    rows: Any = backbone.get_input_embeddings().num_embeddings
    added = set(tokenizer.get_added_vocab().values()) - set(tokenizer.all_special_ids)
    # An added token may lack an embedding where no text contains it: Gemma 3's text models have no images.
    largest = max(set(tokenizer.get_vocab().values()) - added)
    if largest >= rows:
        token = tokenizer.convert_ids_to_tokens(largest)
        raise CheckpointError(
            f"{name}: the tokenizer's token {token!r} has id {largest}, but {type(backbone).__name__} has "
            f"{rows} embeddings, ids 0 to {rows - 1}; the tokenizer is that of another model, or tokens were "
            "added without embeddings for them. Use the tokenizer files that belong to the weights."
        )


def _knows_words(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether a plain sentence has a token with a letter that is neither unknown nor special."""
    try:
        ids = set(tokenizer(PLAIN_SENTENCE, add_special_tokens=False)["input_ids"])
    except Exception:  # an empty vocabulary may lack even the token for unknown words
        return False
    known = ids - {tokenizer.unk_token_id, *tokenizer.all_special_ids}
    return any(character.isalpha() for token in known for character in tokenizer.convert_ids_to_tokens(token))
