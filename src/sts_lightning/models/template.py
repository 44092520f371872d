"""Templates: text around a sentence, with a slot for it."""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase

SLOT = "{sentence}"
MASK = "{mask}"


def has_slot(template: str) -> bool:
    """Return whether a template has exactly one place for the sentence."""
    return template.count(SLOT) == 1


def fill_mask(tokenizer: PreTrainedTokenizerBase, argument: str, template: str) -> str:
    """Replace ``{mask}`` in a template by the tokenizer's mask token.

    Args:
        tokenizer: Tokenizer of the model.
        argument: Name of the argument, for messages.
        template: Template to fill.

    Raises:
        ValueError: The slot is missing or occurs more than once, or the tokenizer has no mask token or does
            not find it in the template.
    """
    if not has_slot(template):
        raise ValueError(f"{argument} must contain {SLOT} exactly once: {template!r}")
    if MASK in template:
        if tokenizer.mask_token is None:
            raise ValueError(
                f"{argument} has {MASK}, but the tokenizer of {tokenizer.name_or_path} "
                "has no mask token; choose a prompt for causal models, such as prompt=eol."
            )
        template = template.replace(MASK, tokenizer.mask_token)
        if tokenizer.mask_token_id not in tokenizer(template.replace(SLOT, ""))["input_ids"]:
            raise ValueError(
                f"{argument} has {MASK}, but the tokenizer of {tokenizer.name_or_path} "
                f"does not read {tokenizer.mask_token!r} as its mask token; repair the tokenizer's files."
            )
    return template
