"""The small BERT of tests and demonstrations."""

from __future__ import annotations

import torch

from sts_lightning.testing.tiny_bert import character_tokenizer, tiny_bert


def test_weights_follow_from_their_seed_and_draw_nothing() -> None:
    state = torch.get_rng_state()
    one, two, other = tiny_bert(), tiny_bert(), tiny_bert(weights_seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in one.state_dict().items():
        assert torch.equal(value, two.state_dict()[name])
    assert any(not torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items())


def test_sizes() -> None:
    encoder = tiny_bert(hidden_size=16, layers=3, heads=4)
    config = encoder.backbone.config
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (16, 3, 4)
    assert encoder.dimension == 16


def test_the_tokenizer_reads_characters() -> None:
    tokenizer = character_tokenizer()
    assert tokenizer.tokenize("Two, 2") == ["t", "##w", "##o", ",", "2"]
    assert tokenizer.decode(tokenizer("A dog.")["input_ids"], skip_special_tokens=True) == "a dog."
    assert tokenizer.unk_token_id in tokenizer("naïve ☃")["input_ids"]
