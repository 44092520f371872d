"""Pipelines of sentence-transformers that are read, and those that have no equivalent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sts_lightning.errors import CheckpointError, ConfigError
from sts_lightning.models.model_files import ModelFiles
from sts_lightning.models.pipeline import Dense, Pipeline
from sts_lightning.models.pipeline_files import read_pipeline

MODULES = "sentence_transformers.models"


def listed(*kinds: str) -> list[dict[str, str]]:
    """Contents of modules.json; a name without a dot is one of the library's older names."""
    return [
        {"type": kind if "." in kind else f"{MODULES}.{kind}", "path": "" if i == 0 else f"{i}_{kind}"}
        for i, kind in enumerate(kinds)
    ]


def make(folder: Path, modules: Any, **files: Any) -> ModelFiles:
    """Write the JSON files of a model; a file's name has __ for / and no suffix."""
    for name, content in {"modules": modules, **files}.items():
        path = folder / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return ModelFiles(str(folder))


def read(folder: Path, modules: Any, **files: Any) -> Pipeline:
    found = read_pipeline(make(folder, modules, **files))
    assert found is not None
    return found


def test_files_of_an_old_version(tmp_path: Path) -> None:
    """Those of all-mpnet-base-v2, with a dense layer as LaBSE has one."""
    found = read(
        tmp_path,
        listed("Transformer", "Pooling", "Dense", "Normalize"),
        sentence_bert_config={"max_seq_length": 384, "do_lower_case": False},
        **{
            "1_Pooling__config": {
                "word_embedding_dimension": 768,
                "pooling_mode_cls_token": True,
                "pooling_mode_mean_tokens": False,
                "pooling_mode_max_tokens": False,
                "pooling_mode_mean_sqrt_len_tokens": False,
            },
            "2_Dense__config": {
                "in_features": 768,
                "out_features": 512,
                "bias": True,
                "activation_function": "torch.nn.modules.activation.Tanh",
            },
        },
        config_sentence_transformers={"__version__": {"sentence_transformers": "2.0.0"}},
    )
    assert (found.pooling, found.row_tokens, found.normalize) == ("cls", 384, True)
    assert found.dense == (Dense("2_Dense", 768, 512, True, "Tanh"),)


@pytest.mark.parametrize(
    "kinds",
    [
        ["Transformer", "Pooling", "LSTM"],
        ["Transformer", "Pooling", "Normalize", "Dense"],
        ["Transformer", "Pooling", "Dropout"],
        ["Transformer", "WeightedLayerPooling", "Pooling"],
        ["WordEmbeddings", "Pooling"],
        ["Transformer"],
        ["custom_st.Transformer", "Pooling"],
    ],
)
def test_modules_without_an_equivalent(kinds: list[str], tmp_path: Path) -> None:
    files = make(tmp_path, listed(*kinds), **{"1_Pooling__config": {"pooling_mode": "mean"}})
    with pytest.raises(ConfigError) as caught:
        read_pipeline(files)
    assert caught.value.key == "model.name"
    assert caught.value.hint is not None
    assert kinds[-1] in str(caught.value) or kinds[0] in str(caught.value)


BASE: dict[str, Any] = {
    "sentence_bert_config": {"max_seq_length": 64},
    "1_Pooling__config": {"pooling_mode": "mean"},
    "2_Dense__config": {
        "in_features": 4,
        "out_features": 4,
        "activation_function": "torch.nn.modules.linear.Identity",
    },
    "3_Normalize__config": {},
    "config_sentence_transformers": {},
}


@pytest.mark.parametrize(
    ("file", "change", "named"),
    [
        ("1_Pooling__config", {"pooling_mode": "weightedmean"}, "weightedmean"),
        ("1_Pooling__config", {"pooling_mode": ["cls", "mean"]}, "cls and mean"),
        ("1_Pooling__config", {"pooling_mode": None, "pooling_mode_max_tokens": True}, "pooling max"),
        ("2_Dense__config", {"activation_function": "torch.nn.modules.activation.PReLU"}, "PReLU"),
        ("2_Dense__config", {"activation_function": "os.Tanh"}, "os.Tanh"),
        ("2_Dense__config", {"use_residual": True}, "2_Dense"),
        ("2_Dense__config", {"module_input_name": "token_embeddings"}, "2_Dense"),
        ("3_Normalize__config", {"module_input_name": "token_embeddings"}, "3_Normalize"),
        ("sentence_bert_config", {"transformer_task": "fill-mask"}, "fill-mask"),
        ("sentence_bert_config", {"model_args": {"add_cross_attention": True}}, "add_cross_attention"),
        ("sentence_bert_config", {"never_seen": 1}, "never_seen"),
        ("sentence_bert_config", {"edit": "mystery"}, "mystery"),
        ("config_sentence_transformers", {"model_type": "SparseEncoder"}, "SparseEncoder"),
        ("config_sentence_transformers", {"truncate_dim": 2}, "truncate_dim"),
    ],
)
def test_settings_without_an_equivalent(
    file: str, change: dict[str, Any], named: str, tmp_path: Path
) -> None:
    modules = listed("Transformer", "Pooling", "Dense", "Normalize")
    assert read(tmp_path, modules, **BASE).dense == (Dense("2_Dense", 4, 4, True, "Identity"),)
    with pytest.raises(ConfigError, match="no equivalent") as caught:
        read(tmp_path, modules, **{**BASE, file: {**BASE[file], **change}})
    assert caught.value.key == "model.name"
    assert named in str(caught.value)


def test_settings_without_effect(tmp_path: Path) -> None:
    settings = {
        "max_seq_length": 64,
        "transformer_task": "feature-extraction",
        "unpad_inputs": True,
        "model_args": {"torch_dtype": "float16", "trust_remote_code": True},
    }
    files = {**BASE, "sentence_bert_config": settings}
    assert read(tmp_path, listed("Transformer", "Pooling"), **files).row_tokens == 64


@pytest.mark.parametrize(
    "modules",
    [{}, [1], [{"type": "x"}], [{"type": f"{MODULES}.Transformer", "path": "../.."}], "text"],
)
def test_broken_lists_of_modules(modules: Any, tmp_path: Path) -> None:
    with pytest.raises((CheckpointError, ConfigError)) as caught:
        read_pipeline(make(tmp_path, modules))
    assert caught.value.key == "model.name"


def test_a_default_prompt_that_is_absent(tmp_path: Path) -> None:
    prompts = {"prompts": {"a": "x"}, "default_prompt_name": "b"}
    with pytest.raises(CheckpointError, match="'b'"):
        read(tmp_path, listed("Transformer", "Pooling"), config_sentence_transformers=prompts)


def test_a_transformer_in_a_folder_of_its_own(tmp_path: Path) -> None:
    modules = listed("Transformer", "Pooling")
    modules[0]["path"] = "0_Transformer"
    with pytest.raises(ConfigError, match="0_Transformer"):
        read(tmp_path, modules)
