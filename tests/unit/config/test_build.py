"""Building from a configuration, and the names in its errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from omegaconf import DictConfig

from sts_lightning.config.build import build, name_setting
from sts_lightning.core.errors import ConfigError
from sts_lightning.losses.base import Loss
from sts_lightning.models.loading.run import build_encoder

Config = Callable[..., DictConfig]


FACTS = {"dimension": 16, "top_label": 2}
L1 = "sts_lightning.losses.regression.L1Loss"

MIX = [
    "loss=mix",
    "+loss.terms.a._target_=sts_lightning.losses.spearman.SpearmanLoss",
    "+loss.terms.b._target_=sts_lightning.losses.ibn.IBNLoss",
    "+loss.weights.a=1",
    "+loss.weights.b=0.5",
]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("+loss.terms.a.temperature=0", r"^loss\.terms\.a\.temperature must be positive"),
        ("+loss.terms.b.positive_from=6", r"^loss\.terms\.b\.positive_from must lie in"),
        ("loss.weights.a=-1", r"^loss\.weights must be finite"),
        (f"+loss.terms.c._target_={L1}", r"^loss\.weights must have the names"),
    ],
)
def test_an_error_of_a_nested_part_names_its_full_path(override: str, message: str, config: Config) -> None:
    with pytest.raises(ConfigError, match=message):
        build("loss", config(*MIX, override).loss, Loss, FACTS)


def test_nested_parts_are_built_in_their_order(config: Config) -> None:
    loss = build("loss", config(*MIX, "+loss.terms.a.temperature=0.3").loss, Loss)
    assert list(loss.terms) == ["a", "b"]
    assert loss.terms["a"].temperature == 0.3
    assert loss.weights == {"a": 1, "b": 0.5}


HEADS = ["loss=mix", "loss.weights={a: 1, b: 1}"]
HEADS += [f"+loss.terms.{name}._target_={L1}" for name in "ab"]


def test_facts_reach_the_parts_that_name_them(config: Config) -> None:
    loss = build("loss", config(*HEADS).loss, Loss, FACTS)
    assert [tuple(term.head.weight.shape) for term in loss.terms.values()] == [(1, 48), (1, 48)]
    assert [term.top_label for term in loss.terms.values()] == [2, 2]
    assert not list(build("loss", config("loss=pearson").loss, Loss, FACTS).parameters())


def test_a_fact_is_no_setting(config: Config) -> None:
    with pytest.raises(ConfigError, match=r"multiple values .* 'dimension'") as caught:
        build("loss", config(*HEADS, "+loss.terms.b.dimension=8").loss, Loss, FACTS)
    assert caught.value.key == "loss.terms.b"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("scale must be positive."), r"^loss\.scale must be positive\."),
        (ValueError("AnglELoss needs embeddings of even size."), r"^loss: AnglELoss needs"),
    ],
)
def test_an_error_in_terms_of_an_argument_continues_the_path(error: ValueError, message: str) -> None:
    with pytest.raises(ConfigError, match=message), name_setting("loss", ["scale"]):
        raise error


def test_an_object_of_another_class_is_rejected(config: Config) -> None:
    """Also where nothing asks for the class afterwards, as for the model."""
    cfg = config("model=tiny_bert")
    cfg.model = {"_target_": "torch.nn.Identity"}
    with pytest.raises(
        ConfigError, match=r"model\._target_ makes an object of the class Identity, not a SentenceEncoder"
    ) as caught:
        build_encoder(cfg.model, cfg.prompt)
    assert caught.value.key == "model._target_"
