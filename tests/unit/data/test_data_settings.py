"""Settings of the group ``data``: those of the data set, and those of the DataModule for any data set."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from omegaconf import DictConfig

from sts_lightning.config.build import LOADING, argument_types
from sts_lightning.core.errors import ConfigError
from sts_lightning.data.module import DataModule
from sts_lightning.papers.word_repetition import WordRepetition
from sts_lightning.training.assembly import make_data

Config = Callable[..., DictConfig]
SENTENCES = ["data=toy", "data.kind=sentences", "data.repetition=0.5", "data.seed=3", "data.batch_size=5"]


def test_what_goes_to_the_data_module_is_what_it_takes() -> None:
    assert argument_types(DataModule).keys() == {"data_set", *LOADING}


def test_the_seed_goes_to_both(config: Config) -> None:
    data = make_data(config(*SENTENCES))
    assert (data.seed, data.batch_sizes) == (3, {"": 5})
    augmentation = data.data_set.views[1].augmentation
    assert isinstance(augmentation, WordRepetition)
    assert augmentation.seed == 3


@pytest.mark.parametrize(
    ("override", "key"), [("data.num_workers=-1", "num_workers"), ("data.views=7", "views")]
)
def test_an_error_of_either_names_the_setting(override: str, key: str, config: Config) -> None:
    with pytest.raises(ConfigError, match=rf"^data\.{key} ") as caught:
        make_data(config(*SENTENCES, override))
    assert caught.value.key == f"data.{key}"
