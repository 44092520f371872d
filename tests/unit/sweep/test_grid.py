"""What is said of a job whose configuration is wrong."""

from __future__ import annotations

import pytest
from hydra import compose

from sts_lightning.config.compose import composing
from sts_lightning.core.errors import ConfigError
from sts_lightning.sweep.grid import named


@pytest.mark.parametrize(
    ("override", "reason", "key"),
    [
        ("optim.lrr=1", "optim.lrr: no such setting. Did you mean optim.lr?", "optim.lrr"),
        ("optim.lr=fast", "optim.lr=fast: Value 'fast' of type 'str' could not", "optim.lr"),
    ],
)
def test_a_job_words_its_errors_as_a_single_run_does(override: str, reason: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught, named([override]), composing():
        compose("train", [override])
    assert str(caught.value).startswith(f"job {override}: {reason}")
    assert caught.value.key == key
