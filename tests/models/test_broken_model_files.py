"""Broken files of models, as a table: the error names the file, and its line or setting."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from sts_lightning.errors import UserError
from sts_lightning.models.model_files import ModelFiles
from sts_lightning.models.pipeline_files import OWN_FILE, read_pipeline
from sts_lightning.models.pretrained import from_pipeline
from sts_lightning.models.word_vectors import read_vectors
from tests.broken import Broken, Healthy, Reader, check_broken, check_healthy, label, put
from tests.models.families import tiny, write

MODULES, TRANSFORMER = "modules.json", "sentence_bert_config.json"
PROMPTS, POOLING, DENSE = "config_sentence_transformers.json", "1_Pooling/config.json", "2_Dense/config.json"
NORMALIZE = "3_Normalize/config.json"
VECTORS = "glove.txt"
DEEP = "[" * 100_000

KINDS = ("Transformer", "Pooling", "Dense", "Normalize")
FOLDER = {
    MODULES: json.dumps(
        [
            {"type": f"sentence_transformers.models.{kind}", "path": f"{index}_{kind}" if index else ""}
            for index, kind in enumerate(KINDS)
        ]
    ),
    TRANSFORMER: '{"max_seq_length": 64}',
    PROMPTS: "{}",
    POOLING: '{"pooling_mode": "mean"}',
    DENSE: '{"in_features": 4, "out_features": 2}',
    NORMALIZE: "{}",
}
"""A model of sentence-transformers without its weights."""


def pipeline(folder: Path, name: str, content: bytes) -> Any:
    """Read the pipeline of a model of which one file is replaced."""
    for file, good in FOLDER.items():
        (folder / file).parent.mkdir(exist_ok=True)
        put(folder / file, content if file == name else good)
    found = read_pipeline(ModelFiles(str(folder)))
    assert found is not None
    dense = found.dense[0]
    return [found.pooling, found.row_tokens, dense.inputs, dense.outputs, found.normalize]


def export(folder: Path, name: str, content: bytes) -> Any:
    """Read the pipeline of an export."""
    put(folder / name, content)
    found = read_pipeline(ModelFiles(str(folder)))
    return None if found is None else [found.pooling, found.row_tokens, found.layer]


def vectors(folder: Path, name: str, content: bytes) -> Any:
    """Read word vectors."""
    words, table = read_vectors(put(folder / name, content))
    return [words, table.tolist()]


READERS: dict[str, Reader] = {"pipeline": pipeline, "export": export, "vectors": vectors}
JSON_FILES = [("pipeline", name) for name in FOLDER] + [("export", OWN_FILE)]
WRONG = {
    TRANSFORMER: {
        "max_seq_length": ["64", 0, -1, 1.5, True, [64]],
        "do_lower_case": ["no", 1],
        "read_mask": ["yes"],
        "template": [3, ["{sentence}"]],
        "sentence_tokens": ["32", 0],
        "edit": [1],
        "model_args": [3, "x", [1]],
    },
    PROMPTS: {"prompts": ["query: ", ["query: "], 3], "default_prompt_name": [1, "absent"]},
    POOLING: {"pooling_mode_mean_tokens": ["true"], "include_prompt": ["false", 0]},
    DENSE: {
        "in_features": ["4", 0, -4, 4.0, None],
        "out_features": [[2], True],
        "bias": ["false", 1],
        "use_residual": ["x"],
        "module_input_name": [3],
    },
    NORMALIZE: {"module_input_name": [["x"]]},
    OWN_FILE: {
        "pooling": [3, "max"],
        "max_length": ["32", 0],
        "template": [[]],
        "text_edit": ["lower", 1],
        "normalize": ["true"],
        "layer": ["last", -1.0],
        "bidirectional_layers": [-1, "all"],
        "projection": [True],
        "denoise_evaluation": ["no"],
    },
}
"""Settings with values of a wrong type or out of range, by file."""


def changed(name: str, key: str, value: Any) -> str:
    """Return a file with one setting replaced; None removes it."""
    settings = json.loads(FOLDER.get(name, "{}"))
    if name == POOLING and key != "include_prompt":
        settings = {}
    return json.dumps({k: v for k, v in (settings | {key: value}).items() if v is not None})


BROKEN = [
    *(Broken(reader, name, text) for reader, name in JSON_FILES for text in ("{", b"\xff\xfe", DEEP, '"x"')),
    *(
        Broken("export" if name == OWN_FILE else "pipeline", name, changed(name, key, value), None, key[:16])
        for name, settings in WRONG.items()
        for key, values in settings.items()
        for value in values
        if not (name == PROMPTS and value == "absent")
    ),
    Broken("pipeline", PROMPTS, '{"default_prompt_name": "absent"}', None, "absent"),
    *(
        Broken("pipeline", MODULES, text)
        for text in ("{}", "[3]", '[{"type": 1, "path": ""}]', '[{"type": "a.B"}]', "null", '[{"path": ""}]')
    ),
    Broken("pipeline", MODULES, FOLDER[MODULES].replace("1_Pooling", "../other")),
    Broken("pipeline", MODULES, FOLDER[MODULES].replace("1_Pooling", "/etc")),
    Broken("vectors", VECTORS, ""),
    Broken("vectors", VECTORS, "3 2\n"),
    Broken("vectors", VECTORS, "a 1 2\nb 1\n", 2, "2"),
    Broken("vectors", VECTORS, "a 1 2\nb 1 x\n", 2),
    Broken("vectors", VECTORS, "a 1 2\nb nan 2\n", 2, "finite"),
    Broken("vectors", VECTORS, "a 1 2\nb 1e39 2\n", 2, "finite"),
    Broken("vectors", VECTORS, "a\nb\n", 1),
    Broken("vectors", VECTORS, "a 1 2\n\nb 1 2\n", 2),
    Broken("vectors", VECTORS, " 1 2\n", 1),
    Broken("vectors", VECTORS, b"a 1 2\n\xe9 1 2\n"),
    Broken("vectors", VECTORS, "a 1 2\n".encode("utf-16")),
    Broken("vectors", VECTORS, "a 1 2\nb\0 1 2\n", 2, "NUL"),
    Broken("vectors", VECTORS, "a 1 2\nb 1\0 2\n", 2),
    Broken("vectors", VECTORS, b"a 1 2\nb 1 2\n\xe9 1 2\n", 3, "0xe9"),
    Broken("vectors", VECTORS, "a 1 2\nb 1_0 2\n", 2, "finite"),
    Broken("vectors", VECTORS, "a 1 2\nb \uff13 2\n", 2, "finite"),
    Broken("vectors", VECTORS, "3 2\na 1 2\nb 1 2\n", 1, "3 words, but 2"),
    Broken("vectors", VECTORS, "2 3\na 1 2\nb 1 2\n", 2, "3 finite"),
    Broken("vectors", VECTORS, "2 2\n2 2\na 1 2\n", 2, "2 finite"),
    Broken("vectors", VECTORS, "a 1\nb 1 2\nc 1 2\n", 1, "which has 1"),
    Broken("vectors", VECTORS, f"a{' 1' * 12}\nb{' 1' * 12}c{' 1' * 12}\n", 2, "12 finite"),
]


@pytest.mark.parametrize("row", BROKEN, ids=label)
def test_the_error_names_the_place(row: Broken, tmp_path: Path) -> None:
    check_broken(READERS, row, tmp_path)


HEALTHY: list[Healthy] = [
    ("pipeline", TRANSFORMER, '{"max_seq_length": null, "model_args": null}', ["mean", None, 4, 2, True]),
    (
        "pipeline",
        POOLING,
        '{"pooling_mode_cls_token": true, "word_embedding_dimension": 4}',
        ["cls", 64, 4, 2, True],
    ),
    ("pipeline", POOLING, '{"pooling_mode": ["lasttoken"]}', ["last_token", 64, 4, 2, True]),
    ("export", OWN_FILE, '{"pooling": "cls", "max_length": 32, "layer": -2}', ["cls", 32, -2]),
    (
        "vectors",
        VECTORS,
        "2 3\r\na 1 2 3\r\nb -1e-3 0 7 \r\n",
        [["a", "b"], [[1, 2, 3], [pytest.approx(-1e-3), 0, 7]]],
    ),
    ("vectors", VECTORS, "\ufeffa 1\n. . 2\n", [["a"], [[1.0]]]),
]


@pytest.mark.parametrize("row", HEALTHY, ids=label)
def test_healthy_and_odd_files_are_read(row: Healthy, tmp_path: Path) -> None:
    check_healthy(READERS, row, tmp_path)


def test_every_reader_has_rows_of_both_kinds() -> None:
    assert len(BROKEN) >= 80
    assert {row.reader for row in BROKEN} == {row[0] for row in HEALTHY} == READERS.keys()


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
        "a header without end": lambda path: path.write_bytes(b"\xff" * 7 + b"\x7f" + path.read_bytes()[8:]),
        "one byte less": lambda path: path.write_bytes(path.read_bytes()[:-1]),
        "overlapping offsets": header(overlap),
        "offsets behind the end": header(lambda found: found[WORDS].update(data_offsets=[0, 10**12])),
        "another shape": header(lambda found: found[WORDS]["shape"].append(7)),
        "an unknown dtype": header(lambda found: found[WORDS].update(dtype="F3")),
        "a wider dtype": header(lambda found: found[WORDS].update(dtype="F64")),
        "transposed": values(lambda found: found.update({WORDS: found[WORDS].T.contiguous()})),
        "fewer rows": values(lambda found: found.update({WORDS: found[WORDS][:3].clone()})),
        "a weight less": values(lambda found: found.pop(WORDS)),
        "nan": values(lambda found: found[WORDS][5, 1:3].fill_(torch.nan)),
        "infinite": values(lambda found: found[POSITIONS][0, 0].fill_(-torch.inf)),
    },
    "config.json": {
        **EVERY,
        "a list": lambda path: path.write_text("[]"),
        "no type": setting(model_type=None),
        "an unknown type": setting(model_type="nonsense"),
        "a text for a size": setting(hidden_size="wide"),
        "another size": setting(hidden_size=64),
        "no heads": setting(num_attention_heads=0),
        "more layers": setting(num_hidden_layers=3),
    },
    "tokenizer.json": {**EVERY, "an object": lambda path: path.write_text("{}")},
    "tokenizer_config.json": {**EVERY, "a list": lambda path: path.write_text("[]")},
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
    DAMAGED[file][damage](folder / file)
    with pytest.raises(UserError) as caught:
        from_pipeline(str(folder))
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000
