"""Views whose templates are beginnings of the first one come from one row (CSE-SFP)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import LlamaConfig, LlamaModel, PreTrainedTokenizerFast

from sts_lightning.data.collate import Batch
from sts_lightning.losses.infonce import InfoNCELoss
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.papers.auxiliary.second_encoder import first_sentences
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.testing.tiny_decoders import byte_tokenizer, tiny_llama
from sts_lightning.training.module import STSModule
from tests.support.decoders import FAMILIES, Make
from tests.support.sentences import TEXTS

TEMPLATE = 'This sentence : "{sentence}" means in one word, it can be summarized as'
BEGINNING = 'This sentence : "{sentence}" means in one word'
PROMPT: dict[str, Any] = {
    "template": TEMPLATE,
    "view_templates": [TEMPLATE, BEGINNING],
    "pooling": "last_token",
}


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
"""As of LLaMA3 and OPT."""

WORDS = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()])
"""As SentencePiece's of LLaMA2 and Mistral: words with a mark, without punctuation."""

MERGED = pre_tokenizers.Metaspace()
"""Words with a mark and with their punctuation: "word," becomes one token."""


def trained_tokenizer(pre_tokenizer: Any) -> PreTrainedTokenizerFast:
    """BPE whose tokens are the words of the template."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizer
    texts = [TEMPLATE.format(sentence=text) for text in TEXTS] * 50
    tokenizer.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=400, special_tokens=["<unk>", "<s>", "</s>"])
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )


def llama(tokenizer: PreTrainedTokenizerFast) -> SentenceEncoder:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(0)
    backbone = LlamaModel(LlamaConfig(vocab_size=len(tokenizer), **sizes))
    return SentenceEncoder(backbone, tokenizer, max_length=32, **PROMPT)


def two_positions(encoder: SentenceEncoder, distance: int) -> Tensor:
    """Those that the authors' code takes of each filled template, (2 * N, D)."""
    found = []
    for text in TEXTS:
        ids = encoder.tokenizer.tokenizer(TEMPLATE.format(sentence=text), return_tensors="pt")["input_ids"]
        with torch.no_grad():
            last = encoder.backbone(input_ids=ids, output_hidden_states=True).hidden_states[-1][0]
        found.append(torch.stack([last[-1], last[-1 - distance]]))
    return torch.stack(found, dim=1).flatten(0, 1)


def check_one_pass(encoder: SentenceEncoder, distance: int) -> None:
    expected = two_positions(encoder, distance)
    for chunk_tokens in (1, 300, 10_000):
        rows = encoder.prepare(chunk_tokens, training=True)([TEXTS, TEXTS], [None, None])
        assert sum(len(chunk["input_ids"]) for chunk in rows.chunks) == len(TEXTS)
        torch.testing.assert_close(encoder(rows).detach(), expected, atol=1e-5, rtol=1e-4)
        first = encoder(first_sentences(rows, 3)).detach()  # as of a queue
        torch.testing.assert_close(first, expected[:3], atol=1e-5, rtol=1e-4)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected[: len(TEXTS)].numpy(), atol=1e-5)


@FAMILIES
def test_one_forward_pass_gives_both_tokens(make: Make) -> None:
    check_one_pass(make(**PROMPT).eval(), distance=len(", it can be summarized as"))  # a token is a byte


@pytest.mark.parametrize("pre_tokenizer", [BYTES, WORDS], ids=["bytes", "words"])
def test_the_distance_is_that_of_the_bare_template(pre_tokenizer: Any) -> None:
    encoder = llama(trained_tokenizer(pre_tokenizer))
    tokenizer = encoder.tokenizer.tokenizer
    bare = tokenizer.convert_ids_to_tokens(tokenizer(TEMPLATE.format(sentence=""))["input_ids"])
    words = [token.strip("Ġ▁") for token in bare]
    distance = len(bare) - 1 - words.index("word")
    assert words[-1] == "as" and distance < 10
    check_one_pass(encoder, distance)


def with_end_token() -> PreTrainedTokenizerFast:
    tokenizer = byte_tokenizer("<s>")
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return tokenizer


OTHERS = {
    "an end token": lambda: llama(with_end_token()),
    "a token across the end": lambda: llama(trained_tokenizer(MERGED)),
    "tokens see later ones": lambda: tiny_llama(**PROMPT, bidirectional_layers=1),
    "another pooling": lambda: tiny_llama(**PROMPT | {"pooling": "mean"}),
    "bare templates": lambda: tiny_llama(**PROMPT, denoise="shift"),
    "another template": lambda: tiny_llama(**PROMPT | {"view_templates": [TEMPLATE, "So: {sentence}, as"]}),
    "the same template": lambda: tiny_llama(**PROMPT | {"view_templates": [TEMPLATE, TEMPLATE]}),
    "the sentence last": lambda: tiny_llama(**PROMPT | {"view_templates": [TEMPLATE, TEMPLATE[:27]]}),
    "no causal model": lambda: tiny_bert(**PROMPT),
}
"""What makes a view's vector another one than that of a token of the first view's row."""


@pytest.mark.parametrize("case", OTHERS)
def test_other_views_have_rows_of_their_own(case: str) -> None:
    encoder = OTHERS[case]().eval()
    assert encoder.tokenizer.rows_of(2) == 2
    rows = encoder.prepare(10_000, training=True)([TEXTS, TEXTS], [None, None])
    assert not any("view_positions" in chunk for chunk in rows.chunks)
    assert encoder(rows).shape == (2 * len(TEXTS), encoder.dimension)


def test_different_sentences_have_rows_of_their_own() -> None:
    encoder = tiny_llama(**PROMPT).eval()
    rows = encoder.prepare(10_000, training=True)([TEXTS, TEXTS[::-1]], [None, None])
    alone = tiny_llama(template=BEGINNING, pooling="last_token").eval()
    second = torch.from_numpy(alone.encode(TEXTS[::-1]))
    torch.testing.assert_close(encoder(rows).detach()[len(TEXTS) :], second, atol=1e-5, rtol=1e-4)


def gradient(shared: bool, micro_batch_size: int | None) -> tuple[Tensor, list[int]]:
    """Of all weights, and the number of rows in each forward pass before the backward pass."""
    encoder = tiny_llama(**PROMPT)
    if not shared:
        encoder.tokenizer.tokens_after_view = None
    unused: Any = None
    module = STSModule(encoder, InfoNCELoss(), unused, unused, micro_batch_size=micro_batch_size)
    rows = encoder.prepare(10_000, training=True)([TEXTS, TEXTS], [None, None])
    passes: list[int] = []
    hook = encoder.backbone.register_forward_hook(lambda _, __, output: passes.append(len(output[0])))
    loss = module.loss(module.embed_views(Batch(rows, 2, None, len(TEXTS))))
    hook.remove()
    loss.backward()
    return torch.cat([w.grad.flatten() for w in module.parameters() if w.grad is not None]), passes


def test_micro_batches_and_rows_of_their_own_give_the_same_gradient() -> None:
    whole, one = gradient(shared=True, micro_batch_size=None)
    cached, several = gradient(shared=True, micro_batch_size=2)
    apart, double = gradient(shared=False, micro_batch_size=None)
    assert (one, several, double) == ([8], [2, 2, 2, 2], [16])
    size = whole.abs().max()
    assert size > 0
    torch.testing.assert_close(cached, whole, atol=2e-5 * float(size), rtol=0)
    torch.testing.assert_close(apart, whole, atol=2e-5 * float(size), rtol=0)
