"""Masks of a chunk that are made without reading positions or padding."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from transformers import masking_utils

from sts_lightning.models.compute import masks
from sts_lightning.models.compute.masks import skip_mask_inspection
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_bert import character_tokenizer
from sts_lightning.testing.tiny_decoders import tiny_mistral
from tests.support.families import COMMON, family
from tests.support.sentences import LOWER_CASE

KINDS = [*(kind for kind in COMMON if kind != "gpt2"), "bidirectional", "t5"]  # gpt2 reads its token ids

EQUALLY_LONG = ["abcd", "efgh", "ijkl"]


def encoder_of(kind: str) -> SentenceEncoder:
    if kind == "bidirectional":
        return tiny_mistral(bidirectional_layers=-1, pooling="mean").eval()
    backbone = family(kind)
    backbone.config.use_cache = False  # as `load_backbone` sets it
    return SentenceEncoder(backbone, character_tokenizer(), max_length=64)


@pytest.mark.parametrize("kind", KINDS)
def test_no_value_is_read(kind: str) -> None:
    """A tensor on the meta device has none: whoever asks for one gets an error."""
    encoder = encoder_of(kind).to("meta")
    (chunk,) = encoder.tokenizer.rows(LOWER_CASE, 10**9).chunks
    chunk = {name: values.to("meta") for name, values in chunk.items()}
    assert encoder.embed_chunk(chunk).shape == (len(LOWER_CASE), encoder.dimension)
    inputs = {"input_ids": chunk["input_ids"]}
    if not encoder.causal:
        inputs["attention_mask"] = chunk["attention_mask"]
    with pytest.raises(RuntimeError, match="meta"):
        encoder.backbone(**inputs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [EQUALLY_LONG, LOWER_CASE])
def test_vectors_are_those_of_masks_that_are_left_out(
    kind: str, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = encoder_of(kind)
    expected = encoder.encode(texts, chunk_tokens=10**9)
    monkeypatch.setattr(masks, "READABLE", ())
    np.testing.assert_allclose(encoder.encode(texts, chunk_tokens=10**9), expected, atol=2e-6)


def test_several_texts_in_a_row_are_found_elsewhere() -> None:
    """Here and in another thread, while one thread embeds."""
    packed = torch.tensor([[0, 1, 2, 0, 1]])
    expected = [[0, 0, 0, 1, 1]]

    def found() -> list[list[int]] | None:
        indices = masking_utils.find_packed_sequence_indices(packed)
        return None if indices is None else indices.tolist()

    assert found() == expected
    with skip_mask_inspection(), ThreadPoolExecutor(1) as executor:
        assert found() is None
        assert executor.submit(found).result() == expected
    assert found() == expected


def test_nothing_is_replaced_outside() -> None:
    """Not at import, and not after two threads have been inside at once."""

    def functions() -> list[object]:
        made = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS
        return [masking_utils.find_packed_sequence_indices, made["sdpa"], made["eager"]]

    before = functions()
    assert {getattr(function, "__module__", "") for function in before} == {"transformers.masking_utils"}
    with skip_mask_inspection():
        with skip_mask_inspection():
            inside = functions()
        assert functions() == inside
    assert not set(map(id, inside)) & set(map(id, before))
    assert functions() == before
