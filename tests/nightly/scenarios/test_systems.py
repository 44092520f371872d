"""Systems with a second encoder, a teacher or a bidirectional layer, against independent computations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import DictConfig
from safetensors.torch import load_file

import sts_lightning
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.training.assembly import make_data
from sts_lightning.workflows.start import train_in
from tests.nightly.scenarios.test_recipes import losses, overrides

Config = Callable[..., DictConfig]

TEXTS = ["The boy hid a rug .", "A farmer ."]


def test_contrastive_tension_trains_two_encoders(config: Config, tmp_path: Path) -> None:
    """Both move, apart from each other, and only the first is loaded."""
    run = tmp_path / "run"
    train_in(run, config(*overrides("ct"), "trainer.keep_state=true"))
    state = RunFolder(run).read_checkpoint("best")["state_dict"]
    first = {n.removeprefix("encoder."): v for n, v in state.items() if n.startswith("encoder.")}
    second = {n.removeprefix("auxiliary.encoder."): v for n, v in state.items() if n.startswith("auxiliary.")}
    assert first.keys() == second.keys()
    start = build_encoder(*(RunFolder(run).load_config()[key] for key in ("model", "prompt"))).state_dict()
    name = "backbone.encoder.layer.1.output.dense.weight"
    assert not torch.equal(first[name], start[name])
    assert not torch.equal(second[name], start[name])
    assert not torch.equal(second[name], first[name])
    loaded = sts_lightning.load(run).state_dict()
    assert torch.equal(loaded[name], first[name])


def test_a_teacher_may_be_a_run_a_model_or_stored_vectors(
    config: Config, tmp_path: Path, uninterrupted: Path
) -> None:
    """The three give the same losses."""
    teacher = sts_lightning.load(uninterrupted)
    folder = tmp_path / "model"
    teacher.backbone.save_pretrained(folder)
    teacher.tokenizer.tokenizer.save_pretrained(folder)
    cfg = config(*overrides("rankcse", uninterrupted))
    data = make_data(cfg)
    data.setup()
    sentences = sorted(set(data.train["sentence1"]))
    stored = tmp_path / "stored"
    stored.mkdir()
    (stored / "sentences.txt").write_text("\n".join(sentences) + "\n")
    np.save(stored / "vectors.npy", teacher.encode(sentences))
    found = {}
    for name, source in (("run", uninterrupted), ("model", folder), ("stored", stored)):
        extra = ["auxiliary.pooling=mean", "auxiliary.max_length=64", "evaluation.final=false"]
        train_in(tmp_path / name, config(*overrides("rankcse", source), *extra))
        found[name] = losses(tmp_path / name)
    assert found["model"] == pytest.approx(found["run"], abs=1e-4)
    assert found["stored"] == pytest.approx(found["run"], abs=1e-4)


@pytest.mark.parametrize("count", [1, 2])
def test_bellms_last_layers_see_all_tokens(count: int, config: Config) -> None:
    """Against the layers called one by one, with masks written by hand.

    The last token sees all tokens in a causal layer, too, so the last layer alone does not change it.
    """
    text = "The boy hid a rug in the park ."
    settings = [*overrides("bellm"), "model.quantization=none", "model.adapter=null"]
    cfg = config(*settings, f"model.bidirectional_layers={count}")
    encoder = build_encoder(cfg.model, cfg.prompt).eval()
    filled = f'The representative word for sentence {text} is:"'
    ids = torch.tensor(encoder.tokenizer.tokenizer([filled])["input_ids"])
    model = encoder.plain_backbone
    size = ids.shape[1]
    causal = torch.full((size, size), -torch.inf).triu(1)[None, None]
    masks = [causal] * (2 - count) + [torch.zeros_like(causal)] * count
    with torch.no_grad():
        hidden = model.embed_tokens(ids)
        places = model.rotary_emb(hidden, torch.arange(size)[None])
        for layer, mask in zip(model.layers, masks, strict=True):
            hidden = layer(hidden, attention_mask=mask, position_embeddings=places)
        expected = model.norm(hidden)[0, -1].numpy()
    np.testing.assert_allclose(encoder.encode([text])[0], expected, atol=1e-5)
    cfg = config(*settings, "model.bidirectional_layers=0")
    one_way = build_encoder(cfg.model, cfg.prompt).eval().encode([text])[0]
    assert np.allclose(one_way, expected, atol=1e-5) == (count == 1)


def test_a_prefix_is_all_that_trains_of_a_decoder(config: Config, tmp_path: Path) -> None:
    train_in(tmp_path / "run", config(*overrides("promcse_llama")))
    assert list(load_file(tmp_path / "run" / "model" / "adapter_model.safetensors")) == ["prompt_embeddings"]
    values = losses(tmp_path / "run")
    assert np.isfinite(values).all()
    start = config(*overrides("promcse_llama"))
    untrained = build_encoder(start.model, start.prompt)
    assert sum(p.numel() for p in untrained.parameters() if p.requires_grad) == 3 * 2 * 2 * 32


def test_consistency_alone_needs_no_teacher(config: Config, tmp_path: Path) -> None:
    train_in(
        tmp_path / "run", config(*overrides("simcse_unsup"), "loss=rankcse", "loss.distillation_weight=0")
    )
    assert len(losses(tmp_path / "run")) == 4
