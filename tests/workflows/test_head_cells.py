"""The cells of a grid: the configurations that a sweep of `train.py` would compose."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from omegaconf import DictConfig

from sts_lightning.config.constraints import check_config
from sts_lightning.errors import ConfigError
from sts_lightning.workflows.head_cells import compose_cells
from tests.conftest import EXACT

FIXED = [EXACT, "name=grid", "model=tiny_bert", "data=toy", "freeze=encoder"]


@pytest.mark.slow  # composes
def test_cells_are_the_configurations_of_the_runs(config: Callable[..., DictConfig]) -> None:
    alone = check_config(config(*FIXED, "loss=smooth_k2", "optim.lr=1e-3", "seed=2"))
    cells = compose_cells([*FIXED, "loss=l1,smooth_k2", "optim.lr=1e-2,1e-3", "seed=1,2"])
    assert [cell.name for cell in cells[:3]] == [
        "loss-l1_optim.lr-0.01_seed-1",
        "loss-l1_optim.lr-0.01_seed-2",
        "loss-l1_optim.lr-0.001_seed-1",
    ]
    assert len({cell.name for cell in cells}) == len(cells) == 8
    assert cells[-1].cfg == alone
    assert cells[-1].cfg.data.seed == 2


@pytest.mark.slow  # composes
def test_one_head_is_a_grid() -> None:
    [cell] = compose_cells([*FIXED, "loss=l1"])
    assert (cell.name, cell.cfg.loss["_target_"].rpartition(".")[2]) == ("head", "L1Loss")


@pytest.mark.slow  # composes
@pytest.mark.parametrize(
    ("override", "key", "message"),
    [
        ("data.batch_size=16,32", "data.batch_size", "share their data"),
        ("model=tiny_bert,minilm", "model", "share their data"),
        ("seed=interval(1,2)", "seed", "needs values"),
        ("seed=range(20000)", None, "20,000 heads"),
        ("loss.none=1,2", None, "none"),
        ("optim.lr=a,b", None, "lr"),
    ],
)
def test_rejects(override: str, key: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        compose_cells([*FIXED, "loss=smooth_k2", override])
    assert key is None or caught.value.key == key
