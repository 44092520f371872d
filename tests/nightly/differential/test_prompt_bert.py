"""PromptBERT's two templates and its denoising against its code."""

from __future__ import annotations

from typing import Any

from sts_lightning.losses.contrastive import InfoNCELoss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.nightly.differential.compare import ROUNDING, SENTENCES, spread, views
from tests.nightly.differential.simcse_forks import Fork, Settings, blocks, five_adamw_updates, prepared

REPOSITORY = "Prompt-BERT"
SIZE = 8
TEMPLATES = [f'This sentence {word} "{{sentence}}" means {{mask}}.' for word in ("of", "::")]
"""Their code shifts both by the first one's length, so both have as many tokens, here of characters."""


def arguments() -> dict[str, Any]:
    """The settings of their unsupervised run, with the templates' parts before and after the sentence."""
    parts = [template.replace("{mask}", "[MASK]").split("{sentence}") for template in TEMPLATES]
    return {
        "mask_embedding_sentence": True,
        "mask_embedding_sentence_delta": True,
        "mask_embedding_sentence_num_masks": 1,
        "mask_embedding_sentence_different_template": TEMPLATES[1],
        "mask_embedding_sentence_bs": parts[0][0],
        "mask_embedding_sentence_es": parts[0][1],
        "mask_embedding_sentence_bs2": parts[1][0],
        "mask_embedding_sentence_es2": parts[1][1],
    }


def fork(encoder: SentenceEncoder) -> Fork:
    """Their model with the token ids of the templates."""
    theirs: Any = Fork(encoder, REPOSITORY, "prompt_bert/models.py", **arguments())
    tokenizer = encoder.tokenizer.tokenizer
    theirs.mask_token_id = tokenizer.mask_token_id
    theirs.bs = tokenizer.encode(theirs.model_args.mask_embedding_sentence_bs, add_special_tokens=False)
    theirs.mask_embedding_template, theirs.mask_embedding_template2 = (
        tokenizer.encode(template.replace("{mask}", "[MASK]").replace("{sentence}", ""))
        for template in TEMPLATES
    )
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
            denoise="shift",
        )
    )
    tokenizer = encoder.tokenizer.tokenizer
    texts = SENTENCES[:SIZE]
    batch, rows = views(encoder, [texts, texts])
    settings = Settings(**arguments())
    assert rows == prepared(REPOSITORY, "train.py", tokenizer, [texts], model_args=settings)

    theirs = fork(encoder)
    given = blocks(rows, 2, tokenizer.pad_token_id)
    loss = InfoNCELoss()
    five_adamw_updates(
        encoder,
        lambda step: loss(encoder(batch).view(2, SIZE, -1)),
        theirs,
        lambda step: theirs(*given).loss,
        rounding=(*ROUNDING, "layer.1.output.LayerNorm.bias"),  # a constant, which the subtraction removes
    )
