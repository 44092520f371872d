"""Batch sizes and epochs of the published cells, conf/published."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.schema import register_schemas
from tests.conftest import CONF

CELLS = sorted(path.stem for path in (CONF / "published").glob("*.yaml"))
CHOICES = {
    "_".join(names): names
    for names in product(
        *([path.stem for path in (CONF / group).glob("*.yaml")] for group in ("data", "model", "prompt"))
    )
}
STAGES = {"nli_triplets": "pcc_stage1", "sts": "pcc_stage2"}


def composed(*overrides: str) -> DictConfig:
    register_schemas()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train", ["name=x", *overrides])


def settings(cfg: DictConfig) -> tuple[int, int]:
    return cfg.data.batch_size, cfg.trainer.max_epochs


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_is_used_wherever_it_is_asked_for(cell: str) -> None:
    assert cell in CHOICES
    data, model, prompt = CHOICES[cell]
    values = OmegaConf.load(CONF / "published" / f"{cell}.yaml")
    expected = (values.batch_size, values.max_epochs)
    chosen = (f"model={model}", f"prompt={prompt}")
    assert settings(composed(f"data={data}", *chosen)) == expected  # the recipe of the model
    assert settings(composed(f"experiment={STAGES[data]}", *chosen)) == expected


def test_there_is_a_cell_for_each_data_model_and_prompt() -> None:
    assert len(CELLS) == 24
    names = [{CHOICES[cell][position] for cell in CELLS} for position in range(3)]
    assert {"_".join(cell) for cell in product(*names)} == set(CELLS)


@pytest.mark.parametrize("model", ["tiny_mistral", "minilm"])
def test_the_fallback_is_for_models_without_cells(model: str) -> None:
    assert model not in {CHOICES[cell][1] for cell in CELLS}
    chosen = (f"model={model}", "prompt=eol")
    assert settings(composed("data=sts", "recipe=qlora", *chosen)) == (64, 2)
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
