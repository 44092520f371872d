"""Batch sizes and epochs of the published cells, config/cells.yaml."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.cells import published_cells
from sts_lightning.config.constraints import check_config
from sts_lightning.config.schema import register_schemas
from sts_lightning.errors import ConfigError
from sts_lightning.sweep.grid import named
from tests.conftest import CONF

pytestmark = pytest.mark.slow  # each composes an experiment

CELLS = published_cells()
STAGES = {"nli_triplets": "pcc_stage1", "sts": "pcc_stage2"}


def composed(*overrides: str) -> DictConfig:
    register_schemas()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train", ["name=x", *overrides])


def settings(cfg: DictConfig) -> tuple[int, int]:
    return cfg.data.batch_size, cfg.trainer.max_epochs


@pytest.mark.parametrize("cell", sorted(CELLS))
def test_a_cell_is_used_wherever_it_is_asked_for(cell: tuple[str, str, str]) -> None:
    data, model, prompt = cell
    expected = (CELLS[cell]["batch_size"], CELLS[cell]["max_epochs"])
    chosen = (f"model={model}", f"prompt={prompt}")
    assert settings(composed(f"data={data}", *chosen)) == expected  # the recipe of the model
    assert settings(composed(f"experiment={STAGES[data]}", *chosen)) == expected


def test_there_is_a_cell_for_each_data_model_and_prompt() -> None:
    assert len(CELLS) == 24
    names = [{cell[position] for cell in CELLS} for position in range(3)]
    assert set(product(*names)) == set(CELLS)


@pytest.mark.parametrize(("position", "group"), enumerate(("data", "model", "prompt")))
def test_each_name_of_a_cell_is_a_choice(position: int, group: str) -> None:
    assert {cell[position] for cell in CELLS} <= {path.stem for path in (CONF / group).glob("*.yaml")}


@pytest.mark.parametrize(
    "choice",
    [
        ["model=mistral7b", "data=toy"],
        ["model=llama7b", "prompt=none"],
        ["model=llama2_7b_prefix"],
        ["model=tiny_mistral", "recipe=qlora", "prompt=eol"],
    ],
)
def test_a_recipe_names_the_settings_of_an_absent_cell(choice: Sequence[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        check_config(composed(*choice))
    assert caught.value.key == "data.batch_size"
    assert caught.value.hint is not None
    assert "prompt=eol, sth, sum" in caught.value.hint
    with pytest.raises(ConfigError) as caught, named(choice):
        assert settings(composed(*choice, "data.batch_size=48"))
    assert caught.value.key == "trainer.max_epochs"
    given = composed(*choice, "data.batch_size=48", "trainer.max_epochs=3")
    assert settings(check_config(given)) == (48, 3)


@pytest.mark.parametrize("model", ["tiny_mistral", "minilm"])
def test_the_experiments_have_values_for_models_without_cells(model: str) -> None:
    assert model not in {cell[1] for cell in CELLS}
    chosen = (f"model={model}", "prompt=eol")
    assert settings(composed("experiment=pcc_stage1", *chosen)) == (256, 1)
    assert settings(composed("experiment=pcc_stage2", *chosen)) == (216, 8)


def test_published_cells(config: Callable[..., OmegaConf]) -> None:
    """Batch and epochs of Pcc-tuning's twelve cells, as its code has them, and what the command line says."""
    cfg = config("experiment=pcc_stage2", "model=llama7b", "prompt=eol")
    assert (cfg.data.batch_size, cfg.trainer.max_epochs, cfg.optim.warmup) == (192, 8, 100)
    cfg = config("experiment=pcc_stage2", "model=mistral7b", "prompt=sum")
    assert (cfg.data.batch_size, cfg.trainer.max_epochs) == (208, 8)
    assert config("experiment=pcc_stage1", "model=mistral7b", "prompt=sth").data.batch_size == 224
    assert config("experiment=pcc_stage1", "model=llama2_7b", "prompt=sum").data.batch_size == 248
    cfg = config("experiment=pcc_stage1", "model=mistral7b", "prompt=sth", "data.batch_size=32")
    assert cfg.data.batch_size == 32
    assert config("experiment=pcc_stage1", "model=tiny_opt").data.batch_size == 256
