"""Loading of encoders: from configurations, and from run folders without the training stack."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from omegaconf import DictConfig

import sts_lightning
from sts_lightning.core.errors import ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.testing.tiny_bert import tiny_bert

Config = Callable[..., DictConfig]


def test_the_package_exposes_its_public_names() -> None:
    assert sts_lightning.SentenceEncoder is SentenceEncoder
    assert sts_lightning.__version__[0].isdigit()
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = sts_lightning.no_such_name


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.max_length=2"], r"^model\.max_length must be at least 3, got 2"),
        (["model.max_length=1000"], r"^model\.max_length must be at most"),
        (["model.pooling=mask_token"], r"^model\.pooling 'mask_token' needs a template"),
        (["prompt.layer=-9"], r"^prompt\.layer must lie between -2 and -1, the last layer, got -9"),
        (["prompt.denoise=pad"], r"^prompt\.denoise 'pad' needs a template"),
        (["prompt.view_templates=[a]"], r"^prompt\.view_templates need a template"),
        (["+model.bidirectional_layers=1"], r"^model\.bidirectional_layers must be 0: BertModel"),
        (
            ["model.adapter={_target_: peft.LoraConfig, target_modules: [nowhere]}"],
            r"^model\.adapter does not fit BertModel",
        ),
    ],
)
def test_errors_name_the_key_of_the_setting(overrides: list[str], message: str, config: Config) -> None:
    cfg = config("model=tiny_bert", "data=toy", *overrides)
    with pytest.raises(ConfigError, match=message):
        build_encoder(cfg.model, cfg.prompt)


@pytest.mark.parametrize("source", ["owner/name@seed-1", "owner/name@v1.0", "owner/name@refs/pr/2", "o/n"])
def test_a_revision_of_a_model_on_the_hub(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def found(name: str, *settings: object) -> tuple[SentenceEncoder, None]:
        asked.append(name)
        return tiny_bert(), None

    monkeypatch.setattr("sts_lightning.models.loading.run.read_model", found)
    sts_lightning.load(source)
    assert asked == [source]
