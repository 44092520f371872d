"""One look-up of token embeddings for all chunks."""

from __future__ import annotations

import torch

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.support.sentences import SENTENCES


def gradients(encoder: SentenceEncoder, chunk_tokens: int) -> dict[str, torch.Tensor]:
    encoder.zero_grad()
    vectors = encoder(encoder.tokenizer.rows(SENTENCES, chunk_tokens))
    (vectors * torch.arange(vectors.numel()).reshape(vectors.shape).cos()).sum().backward()
    return {name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None}


def test_gradient_of_the_shared_look_up_equals_one_look_up_a_chunk() -> None:
    encoder = tiny_bert(dropout=0.0)
    shared = gradients(encoder, 40)
    encoder._takes_embeddings = False
    for name, gradient in gradients(encoder, 40).items():
        torch.testing.assert_close(shared[name], gradient, atol=1e-6, rtol=1e-5)
