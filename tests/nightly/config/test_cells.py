"""Batch sizes and epochs of the published cells, conf/cell."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from sts_lightning.config.check import check_config
from sts_lightning.config.compose import compose_train, composing
from sts_lightning.config.folders import VARIABLE, files_of
from sts_lightning.config.schema import register_schemas
from sts_lightning.training.trainer import count_steps
from tests.conftest import CONF

PROMPTS = ("eol", "sth", "sum")

MODELS = ("opt6_7b", "llama7b", "llama2_7b", "mistral7b")

STAGE_1 = {  # batches with eol, sth, sum
    "opt6_7b": (256, 256, 256),
    "llama7b": (248, 248, 248),
    "llama2_7b": (248, 248, 248),
    "mistral7b": (240, 224, 240),
}

STAGE_2 = {  # batch and epochs with eol, sth, sum
    "opt6_7b": ((232, 10), (216, 10), (200, 8)),
    "llama7b": ((192, 8), (232, 10), (200, 10)),
    "llama2_7b": ((216, 10), (208, 10), (216, 8)),
    "mistral7b": ((216, 8), (240, 8), (208, 8)),
}

CSE_SFP = {  # batch and rate
    ("opt6_7b", "cse_sfp_opt"): (264, 3e-5),
    ("llama2_7b", "cse_sfp"): (256, 4e-5),
    ("llama3_8b", "cse_sfp"): (256, 5e-5),
    ("mistral7b", "cse_sfp_sth"): (312, 2e-5),
}

CELLS = {
    **{("nli_triplets", m, p): (STAGE_1[m][i], 1, 5e-4) for m in MODELS for i, p in enumerate(PROMPTS)},
    **{("sts", m, p): (*STAGE_2[m][i], 5e-4) for m in MODELS for i, p in enumerate(PROMPTS)},
    **{("sentences", *chosen): (batch, 1, lr) for chosen, (batch, lr) in CSE_SFP.items()},
}
"""Batch size, epochs and learning rate in the settings of the papers' code, by data, model and prompt."""

EXPERIMENTS = {"nli_triplets": "pcc_stage1", "sts": "pcc_stage2", "sentences": "cse_sfp"}


def composed(*overrides: str) -> DictConfig:
    register_schemas()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train", ["name=x", *overrides])


def settings(cfg: DictConfig) -> tuple[int, int]:
    return cfg.data.batch_size, cfg.trainer.max_epochs


@pytest.mark.parametrize("cell", sorted(CELLS))
def test_a_cell_is_used_wherever_it_is_asked_for(cell: tuple[str, str, str]) -> None:
    (data, model, prompt), (*expected, lr) = cell, CELLS[cell]
    chosen = (f"model={model}", f"prompt={prompt}")
    recipe = composed(f"data={data}", *chosen)
    experiment = composed(f"experiment={EXPERIMENTS[data]}", *chosen)
    for cfg in (recipe, experiment):
        assert settings(cfg) == tuple(expected)
        assert (cfg.optim.warmup, cfg.optim.lr) == (100, lr)
    without = composed(f"experiment={EXPERIMENTS[data]}", *chosen, "recipe=none")
    assert (settings(without), without.optim.lr) == (settings(experiment), lr)
    for other in ("none", "lora"):
        assert composed(f"data={data}", *chosen, f"recipe={other}").optim.warmup == 0.1


def test_each_file_is_a_published_cell() -> None:
    assert files_of("cell/qlora").keys() == {"_".join(cell) for cell in CELLS}
    for position, group in enumerate(("data", "model", "prompt")):
        assert {cell[position] for cell in CELLS} <= files_of(group).keys()


def test_cse_sfp_without_a_prompt_has_the_template_of_mistral() -> None:
    cfg = composed("experiment=cse_sfp", "model=mistral7b")
    assert (cfg.data.batch_size, cfg.optim.lr) == (312, 2e-5)
    for model, prompt in CSE_SFP:
        cfg = composed("experiment=cse_sfp", f"model={model}", f"prompt={prompt}")
        assert cfg.prompt.template.startswith(cfg.prompt.view_templates[1])


def test_a_cell_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It replaces the published one of that name; an experiment and the command line take precedence."""
    (tmp_path / "cell" / "qlora").mkdir(parents=True)
    (tmp_path / "cell" / "qlora" / "sts_mistral7b_eol.yaml").write_text(
        "# @package _global_\ndata: {batch_size: 24}\noptim: {lr: 1e-5, warmup: 7}\n"
    )
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    cfg = compose_train(["data=sts", "model=mistral7b", "prompt=eol"])
    assert (cfg.data.batch_size, cfg.optim.warmup, cfg.optim.lr) == (24, 7, 1e-5)
    cfg = compose_train(["experiment=pcc_stage2", "optim.warmup=8"])
    assert (cfg.data.batch_size, cfg.optim.warmup, cfg.optim.lr) == (24, 8, 5e-4)


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
    chosen = (f"model={model}", "prompt=eol")
    assert settings(composed("experiment=pcc_stage1", *chosen)) == (256, 1)
    assert settings(composed("experiment=pcc_stage2", *chosen)) == (216, 8)
    cfg = composed("experiment=cse_sfp", *chosen)
    assert (settings(cfg), cfg.optim.lr, cfg.optim.warmup) == ((256, 1), 5e-5, 100)
    assert settings(composed("experiment=pcc_stage1", *chosen, "data.batch_size=32")) == (32, 1)


def test_an_experiment_of_the_users_own_takes_precedence_over_a_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "experiment").mkdir()
    text = "# @package _global_\ndefaults: [pcc_stage1, _self_]\ndata: {batch_size: 32}\n"
    (tmp_path / "experiment" / "mine.yaml").write_text(text)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    cfg = compose_train(["experiment=mine"])
    assert settings(cfg) == (32, 1)
