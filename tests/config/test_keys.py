"""Names of settings."""

from __future__ import annotations

from collections.abc import Callable

from omegaconf import DictConfig

from sts_lightning.config.keys import flat_keys, suggest

Config = Callable[..., DictConfig]


def test_suggestions(config: Config) -> None:
    keys = flat_keys(config())
    assert suggest("max_steps", keys) == "Did you mean trainer.max_steps?"
    assert "optim.warmup" in suggest("optim.warmpu", keys)
    assert suggest("lr", ["optim.eps", "optim.lr"]) == "Did you mean optim.lr?"  # the group is missing
    # Nothing is similar within the group: its settings are listed rather than a key of another group.
    assert suggest("loss.temprature", keys) == "Settings of loss: official."
    assert "loss._target_" not in keys
