"""Settings by which a library would load code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sts_lightning.core.errors import UntrustedError, UserError
from tests.support import run_entries as entries
from tests.support.run_changes import set_at
from tests.support.run_entries import ENTRIES, edit

LORA = {"_target_": "peft.LoraConfig", "target_modules": ["query"]}


PROMPT = {"_target_": "peft.PromptTuningConfig", "num_virtual_tokens": 2, "prompt_tuning_init": "TEXT"}


SETTINGS: dict[str, tuple[str, object]] = {
    "model.adapter.megatron_config": ("model.adapter", {**LORA, "megatron_config": {"name": "x"}}),
    "model.adapter.megatron_core": ("model.adapter", {**LORA, "megatron_core": "megatron.core"}),
    "model.adapter.tokenizer_kwargs": (
        "model.adapter",
        {**PROMPT, "tokenizer_kwargs": {"subfolder": "x"}},
    ),
    "model.adapter.tokenizer_name_or_path": ("model.adapter", {**PROMPT, "tokenizer_name_or_path": "x"}),
    "model.adapter.adapters": ("model.adapter", {"_target_": "peft.XLoraConfig", "adapters": {"one": "x"}}),
    "model.adapter.shadow_model": (
        "model.adapter",
        {"_target_": "peft.ShadowConfig", "shadow_model": "org/x"},
    ),
    "model.adapter.corda_config": ("model.adapter", {**LORA, "corda_config": {"cache_file": "x.bin"}}),
    "model.config._attn_implementation": ("model.config._attn_implementation", "org/kernel"),
    "model.config.attn_implementation": ("model.config.attn_implementation", "org/kernel"),
    "model.config.experts_implementation": ("model.config.experts_implementation", "org/kernel"),
    "model.config.auto_map": ("model.config.auto_map", {"AutoModel": "org/repo--file.Class"}),
    "model.config.quantization_config": ("model.config.quantization_config", {"quant_method": "x"}),
    "logger.csv.save_dir": ("logger.csv.save_dir", "/elsewhere"),
    "logger.tb.name": (
        "logger.tb",
        {"_target_": "lightning.pytorch.loggers.TensorBoardLogger", "name": "../../x"},
    ),
    "logger.tb.version": (
        "logger.tb",
        {"_target_": "lightning.pytorch.loggers.TensorBoardLogger", "version": "/elsewhere"},
    ),
    "logger.wandb.dir": (
        "logger.wandb",
        {"_target_": "lightning.pytorch.loggers.WandbLogger", "dir": "/elsewhere"},
    ),
    "logger.wandb.settings": (
        "logger.wandb",
        {"_target_": "lightning.pytorch.loggers.WandbLogger", "settings": {"base_url": "https://x"}},
    ),
    "logger.mlflow.tracking_uri": (
        "logger.mlflow",
        {"_target_": "lightning.pytorch.loggers.MLFlowLogger", "tracking_uri": "https://x"},
    ),
    "logger.comet.workspace": (
        "logger.comet",
        {"_target_": "lightning.pytorch.loggers.CometLogger", "workspace": "x"},
    ),
    "callbacks.ema.avg_fn": (
        "callbacks.ema",
        {"_target_": "sts_lightning.training.callbacks.ema.WeightEMA", "avg_fn": "x"},
    ),
    "auxiliary.cache_dir": (
        "auxiliary",
        {
            "_target_": "sts_lightning.training.auxiliary.teacher.Teacher",
            "sources": ["x"],
            "cache_dir": "/elsewhere",
        },
    ),
    "prompt.trust_remote_code": ("prompt.trust_remote_code", True),
    "model.trust_remote_code": ("model.trust_remote_code", "please"),
    "data._partial_": ("data._partial_", True),
    "loss._args_": ("loss._args_", ["x"]),
    "model._recursive_": ("model._recursive_", False),
    "callbacks.x._convert_": ("callbacks.x._convert_", "object"),
    "data_root": ("data_root", "${oc.env:HOME}"),
    "model.layers": ("model.layers", "${oc.decode:'2'}"),
    "loss._target_": ("loss._target_", ["a", "list"]),
    "model._target_": ("model._target_", "x'; touch marker; '.y"),
}


@pytest.mark.parametrize("key", list(SETTINGS))
def test_a_setting_by_which_a_library_would_load_code(key: str, run: Path, tmp_path: Path) -> None:
    edit(run / "config.yaml", set_at(*SETTINGS[key]))
    with pytest.raises(UntrustedError) as caught:
        ENTRIES["resume"](run, tmp_path / "out")
    assert f"\n  {key}: " in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "entry", "message"),
    [
        ("trainer.extra.plugins", ["x"], "resume", r"trainer\.extra\.plugins: no such setting"),
        ("trainer.extra.default_root_dir", "/elsewhere", "resume", "no such setting"),
    ],
)
def test_a_setting_that_no_run_has(
    key: str, value: object, entry: str, message: str, run: Path, tmp_path: Path
) -> None:
    edit(run / "config.yaml", set_at(key, value))
    with pytest.raises(UserError, match=message):
        ENTRIES[entry](run, tmp_path / "out")


@pytest.mark.parametrize("value", [{"x": 1}, {"x": "y"}, True])
def test_what_megatron_core_names_is_not_imported(
    value: object, run: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """peft imports a module by that name, which any folder on the path may provide."""
    (tmp_path / "megatron" / "core").mkdir(parents=True)
    (tmp_path / "megatron" / "__init__.py").touch()
    source = entries.PAYLOAD.format(marker=str(marker)) + "class tensor_parallel: pass\n"
    (tmp_path / "megatron" / "core" / "__init__.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("megatron", "megatron.core"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    edit(run / "config.yaml", set_at("model.adapter", {**LORA, "megatron_config": value}))
    with pytest.raises(UntrustedError, match=r"model\.adapter\.megatron_config"):
        ENTRIES["resume"](run, tmp_path / "out")
    assert not marker.exists()
