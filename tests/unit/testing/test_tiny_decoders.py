"""Small decoders against the library's own models."""

from __future__ import annotations

import numpy as np
import torch

from tests.support.decoders import FAMILIES, SENTENCES, TEMPLATE, Make, decoder


@FAMILIES
def test_the_vector_is_that_of_the_last_token_without_padding(make: Make) -> None:
    """Against the library's own model, one sentence at a time."""
    encoder = decoder(make)
    vectors = encoder.encode(SENTENCES, chunk_tokens=10_000)
    for sentence, vector in zip(SENTENCES, vectors, strict=True):
        ids = encoder.tokenizer.tokenizer(TEMPLATE.replace("{sentence}", sentence), return_tensors="pt")
        with torch.no_grad():
            expected = encoder.backbone(**ids).last_hidden_state[0, -1]
        np.testing.assert_allclose(vector, expected.numpy(), atol=2e-6)


@FAMILIES
def test_the_padding_side_does_not_matter(make: Make) -> None:
    encoder = decoder(make)
    vectors = encoder.encode(SENTENCES)
    tokenizer = encoder.tokenizer.tokenizer
    texts = [TEMPLATE.replace("{sentence}", sentence) for sentence in SENTENCES]
    tokenizer.padding_side = "left"
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        left = encoder.backbone(**batch).last_hidden_state[:, -1]
    np.testing.assert_allclose(vectors, left.numpy(), atol=5e-6)
