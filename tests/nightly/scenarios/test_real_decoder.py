"""A real pre-trained decoder, SmolLM2-135M-Instruct, from the folder that STS_DECODER names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from omegaconf import DictConfig
from sentence_transformers import SentenceTransformer
from zero_shot import TEMPLATES, WAYS, plain_cosines

from sts_lightning.data.readers.sts_sets import load_sts_tasks, load_stsb, tables_of
from sts_lightning.evaluation.encoding import score_pairs
from sts_lightning.evaluation.sts import encode_pairs
from sts_lightning.export.export import export
from sts_lightning.models.loading.run import load
from sts_lightning.workflows.evaluate import load_evaluated
from sts_lightning.workflows.start import train_in

Config = Callable[..., DictConfig]


@pytest.fixture
def decoder() -> str:
    folder = os.environ.get("STS_DECODER")
    if not folder:
        pytest.skip("needs a folder with SmolLM2-135M-Instruct: set STS_DECODER")
    return f"model.name={folder}"


@pytest.mark.parametrize("template", TEMPLATES)
def test_untuned_cosines_against_a_plain_loop(
    template: str, decoder: str, data_root: str, config: Config
) -> None:
    for pooling, layer in WAYS:
        settings = [f"prompt={template}", f"prompt.pooling={pooling}", f"prompt.layer={layer}"]
        edit = "text_edit=none" if template == "none" else "text_edit=official"
        cfg = config("model=smollm2_135m", decoder, "precision=32-true", *settings, edit, of="eval")
        encoder = load_evaluated(cfg, "cpu")
        for table in tables_of(load_sts_tasks(data_root, ("STSB", "SICKR"), "prepared")):
            few = table[:5]
            pairs = list(zip(few["sentence1"], few["sentence2"], strict=True))
            plain = plain_cosines(cfg.model.name, cfg.prompt.template, pooling, layer, pairs)
            np.testing.assert_allclose(encode_pairs(encoder, [few])[0], plain, atol=1e-5)


def test_nf4_against_float32(decoder: str, data_root: str, config: Config) -> None:
    few = load_stsb(data_root, "dev")[:200]
    pairs = few["sentence1"], few["sentence2"]
    cosines = [
        score_pairs(load_evaluated(config(*chosen, of="eval"), "cpu"), *pairs)
        for chosen in (
            ("model=smollm2_135m", decoder, "precision=32-true"),
            ("model=smollm2_135m", decoder, "precision=32-true", "quantization=4bit"),
        )
    ]
    assert np.corrcoef(cosines)[0, 1] > 0.9


def test_a_tuned_adapter_leaves_in_each_format(decoder: str, config: Config, tmp_path: Path) -> None:
    run, few = tmp_path / "run", ["trainer.max_steps=2", "evaluation.final=false", "data.batch_size=4"]
    cfg = config("model=smollm2_135m", decoder, "data=toy", "precision=32-true", "optim.warmup=0", *few)
    train_in(run, cfg)
    texts = ["A man is playing a guitar.", 'She said "no" twice', "Snow fell on the hills all night"]
    expected = load(run).encode(texts, normalize=True)
    for format_ in ("adapter", "merged", "sentence-transformers"):
        export(run, tmp_path / format_, format_)
        ours = load(tmp_path / format_).encode(texts, normalize=True)
        np.testing.assert_allclose(ours, expected, atol=1e-4)
    theirs = SentenceTransformer(str(tmp_path / format_), device="cpu", trust_remote_code=True)
    np.testing.assert_allclose(theirs.encode(texts, normalize_embeddings=True), expected, atol=1e-4)
