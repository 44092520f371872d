"""Auxiliary models in plans: weights, what is traced of them, and what cannot be planned."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from omegaconf import DictConfig

from sts_lightning.config.check import check_config
from sts_lightning.core.errors import ConfigError
from sts_lightning.planning.auxiliary import sketches
from sts_lightning.planning.estimate import Tracer, draw
from sts_lightning.planning.gpus import Device

Config = Callable[..., DictConfig]

SMALL = ["model=tiny_bert", "data=toy", "data.kind=sentences", "data.batch_size=8", "trainer=cpu"]
RANKCSE = ["experiment=rankcse", *SMALL, "auxiliary.sources=[sentence-transformers/all-MiniLM-L6-v2]"]
CPU = Device("test", 2**40, gpu=False, precision="32-true")


def test_a_teacher_takes_weights_and_one_chunk_without_gradient(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    cfg = check_config(config(*RANKCSE, "auxiliary.weights=null"))
    trace, _ = Tracer(cfg, CPU).full(None)
    (teacher,) = sketches(draw(cfg, "32-true", None).module.auxiliary)
    size = 4 * sum(parameter.numel() for parameter in teacher.encoder.parameters())
    assert size > 80e6
    assert size < trace.peak["weights"] < 1.02 * size  # the student is tiny
    assert trace.peak["optimiser"] + trace.peak["gradients"] < 0.02 * size


def test_vectors_of_a_teacher_reach_the_loss(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    teacher = ["auxiliary=teacher_vectors", RANKCSE[-1], "loss=vector_distillation"]
    trace, _ = Tracer(check_config(config(*SMALL, *teacher, "loss.teacher_dimension=384")), CPU).full(None)
    assert trace.peak["weights"] > 80e6


def test_a_teacher_of_unknown_shape_is_named(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*args: object, **kwargs: object) -> None:
        raise OSError("no connection")

    cfg = check_config(config(*RANKCSE, "auxiliary.sources=[nobody/nothing]", "auxiliary.weights=null"))
    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", unreachable)
    with pytest.raises(ConfigError) as caught:
        draw(cfg, "32-true", None)
    assert caught.value.key == "auxiliary.sources"
    assert str(caught.value).count(str(caught.value.hint)) == 1


def test_micro_batches_of_the_search_leave_room_for_a_second_encoder(config: Config) -> None:
    with_second = check_config(config("experiment=ct", *SMALL, "data.views=1"))
    alone = check_config(config("loss=infonce", *SMALL, "model.pooling=mean", "model.max_length=75"))
    twice, once = (Tracer(cfg, CPU).full(2)[0].peak for cfg in (with_second, alone))
    assert twice["weights"] > 1.9 * once["weights"]
    assert twice["optimiser"] > 1.9 * once["optimiser"]


def test_eight_bits_are_rejected_with_what_to_plan_instead(config: Config) -> None:
    cfg = check_config(config("model=tiny_mistral", "prompt=eol", "data=toy", "model.quantization=8bit"))
    with pytest.raises(ConfigError) as caught:
        Tracer(cfg, CPU).full(None)
    assert caught.value.key == "model.quantization"
    assert "4bit" in str(caught.value.hint)
