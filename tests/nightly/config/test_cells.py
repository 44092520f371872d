"""Batch sizes and epochs of the published cells, config/cells.yaml."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from sts_lightning.config.check import check_config
from sts_lightning.config.compose import compose_train, composing
from sts_lightning.config.schema import published_cells, register_schemas
from sts_lightning.core.conf_folders import VARIABLE
from sts_lightning.training.trainer import count_steps
from tests.conftest import CONF

CELLS = published_cells()
EXPERIMENTS = {"nli_triplets": "pcc_stage1", "sts": "pcc_stage2", "sentences": "cse_sfp"}


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
    recipe = composed(f"data={data}", *chosen)
    assert settings(recipe) == expected
    assert recipe.optim.warmup == 100
    experiment = composed(f"experiment={EXPERIMENTS[data]}", *chosen)
    assert settings(experiment) == expected
    assert experiment.optim.lr == CELLS[cell].get("lr", 5e-4)


def test_there_is_a_cell_for_each_data_model_and_prompt_of_pcc_tuning() -> None:
    cells = {cell for cell in CELLS if cell[0] != "sentences"}
    assert len(cells) == 24
    names = [{cell[position] for cell in cells} for position in range(3)]
    assert set(product(*names)) == cells


def test_published_cells_of_cse_sfp() -> None:
    """Batch and learning rate of its code; without a prompt the template is Mistral's."""
    published = {
        "opt6_7b prompt=cse_sfp_opt": (264, 3e-5),
        "llama2_7b prompt=cse_sfp": (256, 4e-5),
        "llama3_8b prompt=cse_sfp": (256, 5e-5),
        "mistral7b": (312, 2e-5),
    }
    for chosen, values in published.items():
        cfg = composed("experiment=cse_sfp", *f"model={chosen}".split())
        assert (cfg.data.batch_size, cfg.optim.lr) == values
        assert cfg.prompt.template.startswith(cfg.prompt.view_templates[1])
    assert len([cell for cell in CELLS if cell[0] == "sentences"]) == len(published)


@pytest.mark.parametrize(("position", "group"), enumerate(("data", "model", "prompt")))
def test_each_name_of_a_cell_is_a_choice(position: int, group: str) -> None:
    assert {cell[position] for cell in CELLS} <= {path.stem for path in (CONF / group).glob("*.yaml")}


def qlora(cfg: DictConfig) -> tuple[object, ...]:
    """What tells the recipe of a decoder from the defaults, which suit an encoder."""
    optim, trainer = cfg.optim, cfg.trainer
    return optim.lr, optim.warmup, trainer.micro_batch_size, cfg.precision, trainer.cpu_fallback


DECODER = (5e-4, 0.1, "auto", "auto", False)
SMALL_DECODER = (5e-4, 0.1, 32, "auto", True)
ENCODER = (5e-5, 0.1, None, "auto", True)


@pytest.mark.parametrize(
    "choice",
    [
        ["model=mistral7b", "data=pairs_file", "path=mine.csv"],
        ["model=llama7b", "prompt=none"],
        ["model=llama3_8b"],
        ["model=llama2_7b_prefix"],
        ["model=decoder", "model.name=folder"],
        ["model=tiny_mistral", "recipe=qlora", "prompt=eol"],
    ],
    ids=" ".join,
)
def test_a_decoder_has_its_recipe_where_nothing_is_published(choice: list[str]) -> None:
    cfg = composed(*choice)
    assert qlora(cfg) == DECODER
    steps = count_steps(cfg.trainer, 10)
    assert (cfg.data.batch_size, steps.total_steps) == (64, 20)  # two epochs, as by default
    assert count_steps(composed(*choice, "trainer.max_steps=50").trainer, 10).total_steps == 50
    check_config(cfg)
    assert qlora(composed(*choice, "recipe=none")) == ENCODER


def test_a_small_decoder_has_the_same_recipe_on_a_laptop() -> None:
    for model in ("smollm2_135m", "qwen3_0_6b"):
        assert qlora(composed(f"model={model}", "data=pairs_file", "path=mine.csv")) == SMALL_DECODER
        stage = composed("experiment=pcc_stage1", f"model={model}")
        assert (stage.trainer.micro_batch_size, stage.model.quantization) == (32, "none")


def test_a_model_of_the_users_own_inherits_the_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Precedence: the model's recipe, the experiment, the command line."""
    (tmp_path / "model").mkdir()
    (tmp_path / "experiment").mkdir()
    (tmp_path / "model" / "my_llama.yaml").write_text("defaults: [decoder, _self_]\nname: folder\n")
    (tmp_path / "experiment" / "mine.yaml").write_text("# @package _global_\noptim: {lr: 2e-4, eps: 1e-6}\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    cfg = compose_train(["model=my_llama", "experiment=mine", "optim.eps=1e-7"])
    assert (cfg.model.name, cfg.optim.lr, cfg.optim.eps) == ("folder", 2e-4, 1e-7)
    assert qlora(cfg)[1:] == DECODER[1:]
    assert "one word" in cfg.prompt.template
    with composing():
        evaluated = compose("eval", ["model=my_llama"])  # which trains nothing
    assert (evaluated.model.name, evaluated.precision) == ("folder", None)


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


def test_an_experiment_of_the_users_own_takes_precedence_over_a_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "experiment").mkdir()
    text = "# @package _global_\ndefaults: [pcc_stage1, _self_]\ndata: {batch_size: 32}\n"
    (tmp_path / "experiment" / "mine.yaml").write_text(text)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    cfg = compose_train(["experiment=mine"])
    assert settings(cfg) == (32, 1)
