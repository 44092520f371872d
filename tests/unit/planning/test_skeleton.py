"""Encoders without weights, against the same encoders with weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from sts_lightning.core.errors import ConfigError
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.planning.fake import fake_mode, make_fake, stored_tensors
from sts_lightning.planning.skeleton import build_skeleton

Config = Callable[..., DictConfig]


@pytest.mark.parametrize(
    "overrides",
    [
        ["model=tiny_bert"],
        ["model=tiny_opt", "prompt=eol"],
        ["model=tiny_mistral", "prompt=eol", "model.quantization=4bit", "model.hidden_size=64"],
    ],
    ids=lambda texts: texts[0],
)
def test_every_stored_tensor_has_its_size(config: Config, overrides: list[str]) -> None:
    cfg = config(*overrides, "data=toy")
    real = build_encoder(cfg.model, cfg.prompt)
    skeleton = build_skeleton(cfg.model, cfg.prompt)
    assert type(skeleton.encoder.backbone) is type(real.backbone)
    make_fake(skeleton.encoder, fake_mode())

    def described(encoder: object) -> dict[str, tuple[object, ...]]:
        return {name: (tuple(t.shape), t.dtype, t.device.type) for name, t in stored_tensors(encoder)}  # type: ignore[arg-type]

    assert described(skeleton.encoder) == described(real)
    trained = {name for name, p in real.named_parameters() if p.requires_grad}
    assert trained == {name for name, p in skeleton.encoder.named_parameters() if p.requires_grad}


def test_a_7b_model_takes_its_published_shape_and_no_memory(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    cfg = config("model=mistral7b", "model.adapter=null", "model.quantization=none", "data=toy")
    skeleton = build_skeleton(cfg.model, cfg.prompt)
    assert sum(p.numel() for p in skeleton.encoder.parameters()) == 7_241_732_096 - 32_000 * 4096
    assert all(p.is_meta for p in skeleton.encoder.parameters())
    assert skeleton.depth == 32
    assert skeleton.encoder.longest_rows(1)["input_ids"].shape[1] > 64
    few = build_skeleton(cfg.model, cfg.prompt, layers=2).encoder
    assert few.backbone.config.num_hidden_layers == 2


def test_an_unknown_shape_is_named(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    cfg = config("model=mistral7b", "model.name=nobody/nothing", "data=toy")
    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", _unreachable)
    with pytest.raises(ConfigError) as caught:
        build_skeleton(cfg.model, cfg.prompt)
    assert caught.value.key == "model.name"


def _unreachable(*args: object, **kwargs: object) -> None:
    raise OSError("no connection")


def test_a_published_model_is_planned_without_the_hub_and_its_cache(
    config: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def connect(*args: object) -> None:
        pytest.fail("a plan reached for the network")

    monkeypatch.setattr("socket.socket.connect", connect)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("transformers.utils.hub.HF_HUB_CACHE", str(tmp_path), raising=False)
    cfg = config("model=bert_base", "data=toy")
    skeleton = build_skeleton(cfg.model, cfg.prompt)
    assert skeleton.encoder.backbone.config.hidden_size == 768
    assert len(skeleton.notes) == 2
    tokens = skeleton.encoder.tokenizer(["A man, extraordinarily tall, is 12345 feet."])[0]
    pieces = ["A", "man", ",", "extraord", "inarily", "tall", ",", "is", "123", "45", "feet", "."]
    assert len(tokens) == 2 + len(pieces)
