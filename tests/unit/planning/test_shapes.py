"""Published shapes: the numbers of parameters that their papers and model cards give."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModel

from sts_lightning.planning.skeleton import published_shape

MILLIONS = {
    "mistralai/Mistral-7B-v0.1": 7_111,
    "huggyllama/llama-7b": 6_607,
    "meta-llama/Llama-2-7b-hf": 6_607,
    "facebook/opt-6.7b": 6_658,
    "google-bert/bert-base-uncased": 109,
    "google-bert/bert-large-uncased": 335,
    "voidism/diffcse-bert-base-uncased-sts": 109,
    "princeton-nlp/unsup-simcse-bert-large-uncased": 335,
    "FacebookAI/roberta-base": 125,
    "FacebookAI/roberta-large": 355,
    "sentence-transformers/all-MiniLM-L6-v2": 22.7,
}


@pytest.mark.parametrize("name", sorted(MILLIONS))
def test_number_of_parameters(name: str) -> None:
    with torch.device("meta"):
        model = AutoModel.from_config(published_shape(f"{name}@main"))
    count = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    assert count == pytest.approx(MILLIONS[name], rel=0.01)


def test_another_model_has_none() -> None:
    assert published_shape("someone/else") is None
