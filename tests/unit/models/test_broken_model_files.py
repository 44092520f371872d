"""Broken files of models: the error names the folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from sts_lightning.core.errors import UserError
from sts_lightning.models.loading.folder import write_model
from sts_lightning.models.loading.pipeline import from_pipeline
from sts_lightning.models.loading.run import load
from sts_lightning.testing.tiny_bert import tiny_bert
from tests.support.families import tiny, write


def header(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """Change the header of a safetensors file."""

    def damage(path: Path) -> None:
        content = path.read_bytes()
        size = int.from_bytes(content[:8], "little")
        found = json.loads(content[8 : 8 + size])
        change(found)
        text = json.dumps(found).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])

    return damage


def values(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], object]:
    """Change the tensors of a safetensors file."""

    def damage(path: Path) -> None:
        found = load_file(path)
        change(found)
        save_file(found, path, metadata={"format": "pt"})

    return damage


def setting(**changed: Any) -> Callable[[Path], object]:
    return lambda path: path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def overlap(found: dict[str, Any]) -> None:
    found[WORDS]["data_offsets"] = found[POSITIONS]["data_offsets"]


WORDS, POSITIONS = "embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"
EVERY: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "noise": lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n\0\xff" * 99),
}
DAMAGED: dict[str, dict[str, Callable[[Path], object]]] = {
    "model.safetensors": {
        **EVERY,
        "overlapping offsets": header(overlap),
        "another shape": header(lambda found: found[WORDS]["shape"].append(7)),
        "fewer rows": values(lambda found: found.update({WORDS: found[WORDS][:3].clone()})),
        "a weight less": values(lambda found: found.pop(WORDS)),
        "nan": values(lambda found: found[WORDS][5, 1:3].fill_(torch.nan)),
        "infinite": values(lambda found: found[POSITIONS][0, 0].fill_(-torch.inf)),
    },
    "config.json": {
        "empty": EVERY["empty"],
        "a list": lambda path: path.write_text("[]"),
        "no type": setting(model_type=None),
        "a text for a size": setting(hidden_size="wide"),
        "another size": setting(hidden_size=64),
        "more layers": setting(num_hidden_layers=3),
    },
    "tokenizer.json": {"noise": EVERY["noise"], "an object": lambda path: path.write_text("{}")},
    "tokenizer_config.json": {"noise": EVERY["noise"]},
    "modules.json": {
        **EVERY,
        "a mapping": lambda path: path.write_text("{}"),
        "no path": lambda path: path.write_text('[{"type": "a.B"}]'),
    },
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(write(tiny("bert"), tmp_path_factory.mktemp("models") / "good"))


def test_the_model_itself_loads(model: Path) -> None:
    assert from_pipeline(str(model)).encode(["a"]).shape == (1, 32)


@pytest.mark.parametrize(
    ("file", "damage"), [(file, damage) for file, damages in DAMAGED.items() for damage in damages]
)
def test_a_damaged_model_is_named(file: str, damage: str, model: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "damaged"))
    if file == "modules.json":
        (folder / file).write_text('[{"type": "sentence_transformers.models.Transformer", "path": ""}]')
    DAMAGED[file][damage](folder / file)
    with pytest.raises(UserError) as caught:
        from_pipeline(str(folder))
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_a_damaged_file_of_a_folder_is_no_matter_of_the_hub(model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(model, tmp_path / "m")
    EVERY["half"](folder / "model.safetensors")
    with pytest.raises(UserError, match=r"incomplete metadata.*\. One of its files is damaged") as caught:
        from_pipeline(str(folder))
    assert "HF_HUB_OFFLINE" not in str(caught.value)


def test_a_run_and_a_graph_are_no_models(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_model(tiny_bert(), run / "model")
    with pytest.raises(UserError, match=r"It is a run, whose model is .*model; eval\.py takes"):
        from_pipeline(str(run))
    for weights in ("config.json", "model.safetensors"):
        (run / "model" / weights).unlink()
    (run / "model" / "model.onnx").touch()
    for read in (from_pipeline, load):
        with pytest.raises(UserError, match="is a graph, which onnxruntime reads"):
            read(str(run / "model"))
