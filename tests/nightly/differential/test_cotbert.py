"""CoT-BERT's three templates, its denoising and its loss against its code."""

from __future__ import annotations

from typing import Any

from sts_lightning.losses.contrastive import InfoNCELoss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.nightly.differential.compare import ROUNDING, SENTENCES, spread, views
from tests.nightly.differential.simcse_forks import Fork, Settings, blocks, five_adamw_updates, prepared

REPOSITORY = "CoT-BERT"
SIZE = 6
TEMPLATES = [
    'The sentence of "{sentence}" means {mask} , so it can be summarized as {mask} .',
    'The sentence : "{sentence}" means {mask} , so it can be summarized as {mask} .',
    'The sentence : "{sentence}" does not mean {mask} , so it cannot be summarized as {mask} .',
]
PUBLISHED = [
    '*cls*_The_sentence_of_"*sent_0*"_means_*mask*_,_so_it_can_be_summarized_as_*mask*_._*sep+*',
    '*cls*_The_sentence_:_"*sent_0*"_means_*mask*_,_so_it_can_be_summarized_as_*mask*_._*sep+*',
    '*cls*_The_sentence_:_"*sent_0*"_does_not_mean_*mask*_,_so_it_cannot_be_summarized_as_*mask*_._*sep+*',
]
LONGEST = 110
"""Tokens of a template, which here are characters, and of a sentence; 80 in their model."""


def arguments() -> dict[str, Any]:
    """The settings of their run, with the templates' parts before and after the sentence."""
    found: dict[str, Any] = {
        "mask_embedding_sentence": True,
        "mask_embedding_sentence_delta": True,
        "mask_embedding_sentence_num_masks": 1,
        "mask_embedding_sentence_different_template": PUBLISHED[1],
        "mask_embedding_sentence_negative_template": PUBLISHED[2],
        "mask_embedding_sentence_different_negative_template": "",
    }
    for end, template in zip(("", "2", "3"), PUBLISHED, strict=True):
        text = template.replace("*mask*", "[MASK]").replace("*sep+*", "").replace("*cls*", "")
        before, after = text.replace("_", " ").split("*sent 0*")
        found |= {f"mask_embedding_sentence_bs{end}": before, f"mask_embedding_sentence_es{end}": after}
    return found


def fork(encoder: SentenceEncoder) -> Fork:
    """Their model with the token ids of the templates."""
    theirs: Any = Fork(encoder, REPOSITORY, "models.py", "denoising", **arguments())
    tokenizer = encoder.tokenizer.tokenizer
    theirs.total_length, theirs.mask_num = LONGEST, 2
    theirs.pad_token_id, theirs.mask_token_id = tokenizer.pad_token_id, tokenizer.mask_token_id
    for end in ("", "2", "3"):
        template = ""
        for name in ("bs", "es"):
            part = getattr(theirs.model_args, f"mask_embedding_sentence_{name}{end}")
            setattr(theirs, f"{name}{end}", tokenizer.encode(part, add_special_tokens=False))
            template += part
        setattr(theirs, f"mask_embedding_template{end}", tokenizer.encode(template))
    found: Fork = theirs
    return found


def test_training() -> None:
    encoder = spread(
        tiny_bert(
            dropout=0.0,
            pooling="mask_token",
            max_length=32,
            projection="always",
            view_templates=TEMPLATES,
            template=TEMPLATES[0],
            denoise="pad",
        )
    )
    tokenizer = encoder.tokenizer.tokenizer
    texts = SENTENCES[:SIZE]
    batch, rows = views(encoder, [texts] * 3)
    settings = Settings(**arguments())
    assert rows == prepared(REPOSITORY, "code-for-BERT/train.py", tokenizer, [texts], model_args=settings)

    theirs = fork(encoder)
    given = blocks(rows, 3, tokenizer.pad_token_id)
    loss = InfoNCELoss(positive_negatives=True)
    five_adamw_updates(
        encoder,
        lambda step: loss(encoder(batch).view(3, SIZE, -1)),
        theirs,
        lambda step: theirs(*given).loss,
        rounding=(*ROUNDING, "layer.1.output.LayerNorm.bias"),  # a constant, which the subtraction removes
    )
