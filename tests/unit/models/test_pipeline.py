"""Folders of sentence-transformers, read without that library; nightly tests compare vectors with it."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

import sts_lightning
from sts_lightning.core.errors import CheckpointError, ConfigError
from sts_lightning.models.encoding import Base
from sts_lightning.models.loading.backbone import load_backbone
from sts_lightning.models.loading.pipeline import from_pipeline
from sts_lightning.testing.tiny_bert import character_tokenizer
from tests.support.families import tiny, write

TEXTS = ["a dog runs .", "x", "someone plays an old guitar in the park"]
MODULES = "sentence_transformers.models"
KINDS = ("Transformer", "Pooling", "Dense", "Normalize")
OLD = ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")


@pytest.fixture(autouse=True)
def without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)


def merge(path: Path, **settings: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    known = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(known | settings))


def kinds(folder: Path, *types: str, first: str = "") -> None:
    """Write modules.json; a type without a dot is one of the library's older paths."""
    entries = [
        {"path": first if index == 0 else f"{index}_{name.rpartition('.')[2]}", "type": name}
        for index, name in enumerate(types if "." in types[0] else [f"{MODULES}.{name}" for name in types])
    ]
    (folder / "modules.json").write_text(json.dumps(entries))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A transformer, mean pooling, a dense layer with tanh and a normalisation."""
    path = tmp_path / "model"
    write(tiny("bert"), path)
    kinds(path, *KINDS)
    merge(path / "1_Pooling" / "config.json", word_embedding_dimension=32, pooling_mode_mean_tokens=True)
    merge(path / "2_Dense" / "config.json", in_features=32, out_features=8, bias=True)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        layer = {"linear.weight": torch.randn(8, 32), "linear.bias": torch.randn(8)}
    save_file(layer, path / "2_Dense" / "model.safetensors")
    return path


def hidden(folder: Path, text: str) -> np.ndarray:
    """The transformer's output for one text, (L, D)."""
    tokens = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        return np.asarray(AutoModel.from_pretrained(folder).eval()(**tokens).last_hidden_state[0])


def test_vectors_are_those_of_the_formula(folder: Path) -> None:
    layer = {
        key: values.numpy() for key, values in load_file(folder / "2_Dense" / "model.safetensors").items()
    }
    pooled = np.stack([hidden(folder, text).mean(axis=0) for text in TEXTS])
    expected = np.tanh(pooled @ layer["linear.weight"].T + layer["linear.bias"])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    state = torch.get_rng_state()
    np.testing.assert_allclose(sts_lightning.load(folder).encode(TEXTS), expected, atol=1e-6)
    assert torch.equal(torch.get_rng_state(), state)
    torch.save(load_file(folder / "2_Dense" / "model.safetensors"), folder / "2_Dense" / "pytorch_model.bin")
    (folder / "2_Dense" / "model.safetensors").unlink()
    np.testing.assert_allclose(sts_lightning.load(folder).encode(TEXTS), expected, atol=1e-6)


SPELLINGS = {
    "2.0": [f"sentence_transformers.models.{kind}" for kind in KINDS],
    "0.4": [f"sentence_transformers.models.{kind}.{kind}" for kind in KINDS],
    "6.2": [
        "sentence_transformers.base.modules.transformer.Transformer",
        "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
        "sentence_transformers.base.modules.dense.Dense",
        "sentence_transformers.base.modules.normalize.Normalize",
    ],
}


@pytest.mark.parametrize("version", list(SPELLINGS))
def test_paths_of_classes_of_several_versions(version: str, folder: Path) -> None:
    expected = sts_lightning.load(folder).encode(TEXTS)
    kinds(folder, *SPELLINGS[version])
    np.testing.assert_array_equal(sts_lightning.load(folder).encode(TEXTS), expected)


NEUTRAL: dict[str, dict[str, Any]] = {
    "2_Dense/config.json": {
        "activation_function": "torch.nn.modules.activation.Tanh",
        "module_input_name": "sentence_embedding",
        "module_output_name": "sentence_embedding",
        "use_residual": False,
    },
    "3_Normalize/config.json": {"module_input_name": "sentence_embedding", "module_output_name": None},
    "1_Pooling/config.json": {"embedding_dimension": 32, "include_prompt": True, "pooling_mode": ["mean"]},
    "sentence_bert_config.json": {
        "max_seq_length": 100,
        "do_lower_case": True,
        "transformer_task": "feature-extraction",
        "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
        "module_output_name": "token_embeddings",
        "unpad_inputs": True,
        "query_length": None,
        "model_args": {"add_pooling_layer": False, "trust_remote_code": True},
        "config_kwargs": {},
    },
    "config_sentence_transformers.json": {
        "__version__": {"sentence_transformers": "6.2.0"},
        "model_type": "SentenceTransformer",
        "prompts": {"query": "", "document": None},
        "default_prompt_name": None,
        "similarity_fn_name": None,
        "truncate_dim": None,
        "requirements": {"transformers": ">=5"},
    },
}


@pytest.mark.parametrize("file", list(NEUTRAL))
def test_keys_that_change_nothing(file: str, folder: Path) -> None:
    expected = sts_lightning.load(folder).encode(TEXTS)
    merge(folder / file, **NEUTRAL[file])
    np.testing.assert_array_equal(sts_lightning.load(folder).encode(TEXTS), expected)


BERT, WHOLE = "sentence_bert_config.json", "config_sentence_transformers.json"
POOLING, DENSE, NORMALIZE = (f"{name}/config.json" for name in ("1_Pooling", "2_Dense", "3_Normalize"))
UNKNOWN: list[tuple[str, dict[str, Any], str]] = [
    (BERT, {"transformer_task": "fill-mask"}, 'transformer_task="fill-mask" in sentence_bert'),
    (BERT, {"modality_config": {"message": {"method": "forward"}}}, "modality_config=.*message"),
    (BERT, {"modality_config": {"text": {"method": "push_to_hub"}}}, "modality_config=.*push_to_hub"),
    (BERT, {"module_output_name": "sentence_embedding"}, "module_output_name="),
    (BERT, {"processing_kwargs": {"text": {"padding": "max_length"}}}, "processing_kwargs="),
    (BERT, {"query_length": 32}, "query_length=32"),
    (BERT, {"document_length": 32}, "document_length=32"),
    (BERT, {"query_expansion": {"length": 32}}, "query_expansion="),
    (BERT, {"tokenizer_name_or_path": "other"}, 'tokenizer_name_or_path="other"'),
    (BERT, {"max_seq_length": "long"}, 'max_seq_length="long"'),
    (BERT, {"a_new_key": 1}, "a_new_key=1 in sentence_bert_config.json"),
    *(
        (BERT, {f"{of}_{what}": {"num_hidden_layers": 1}}, f"{of}_{what}=.*num_hidden_layers")
        for of in ("model", "tokenizer", "processor", "config")
        for what in ("args", "kwargs")
    ),
    (
        "sentence_roberta_config.json",
        {"config_args": {"_attn_implementation": "org/x"}},
        ".*org/x.*in sentence_rob",
    ),
    (POOLING, {"pooling_mode_max_tokens": True}, "the pooling max and mean"),
    (POOLING, {"pooling_mode": "max"}, "the pooling max,"),
    (POOLING, {"pooling_mode": "weightedmean"}, "the pooling weightedmean,"),
    (POOLING, {"pooling_mode": "mean_sqrt_len_tokens"}, "the pooling mean_sqrt_len_tokens,"),
    (POOLING, {"pooling_mode": ["cls", "mean"]}, "the pooling cls and mean,"),
    (POOLING, {"pooling_mode_whole_word_tokens": False}, "pooling_mode_whole_word_tokens=false in 1_Pooling"),
    (DENSE, {"activation_function": "os.system"}, r"the activation os\.system in 2_Dense"),
    (DENSE, {"activation_function": "mine.nn.Tanh"}, r"the activation mine\.nn\.Tanh"),
    (DENSE, {"activation_function": "torch.nn.modules.linear.Bilinear"}, "the activation .*Bilinear"),
    (DENSE, {"use_residual": True}, "use_residual=true in 2_Dense"),
    (DENSE, {"module_input_name": "token_embeddings"}, "module_input_name="),
    (DENSE, {"module_output_name": "scores"}, 'module_output_name="scores" in 2_Dense'),
    (DENSE, {"scale": 2.0}, "scale=2.0 in 2_Dense"),
    (NORMALIZE, {"module_input_name": "token_embeddings"}, "module_input_name=.* in 3_Normalize"),
    (NORMALIZE, {"module_output_name": "other"}, 'module_output_name="other" in 3_Normalize'),
    (WHOLE, {"model_type": "SparseEncoder"}, 'model_type="SparseEncoder" in config_sentence'),
    (WHOLE, {"prompts": {"a": 1}}, "prompts="),
    (WHOLE, {"query_prefix": "q"}, 'query_prefix="q" in config_sentence_transformers.json'),
    (
        "adapter_config.json",
        {"auto_mapping": {"parent_library": "mine"}},
        r"a transformer with adapter_config\.json",
    ),
]


@pytest.mark.parametrize(("file", "settings", "message"), UNKNOWN)
@pytest.mark.parametrize("trust", [False, True])
def test_keys_without_an_equivalent_are_named(
    file: str, settings: dict[str, Any], message: str, trust: bool, folder: Path
) -> None:
    merge(folder / file, **settings)
    with pytest.raises(ConfigError, match=f"the pipeline of .* has {message}.* no equivalent here") as caught:
        from_pipeline(str(folder), trust_remote_code=trust)
    assert caught.value.key == "model.name"


@pytest.mark.parametrize(
    "types",
    [
        ("os.system",),
        ("mine.Transformer", f"{MODULES}.Pooling"),
        ("Transformer",),
        ("Transformer", "Normalize"),
        ("Transformer", "Pooling", "Normalize", "Dense"),
        ("Transformer", "Pooling", "Pooling"),
        ("Transformer", "Pooling", "LayerNorm"),
        ("Router", "Pooling"),
        ("StaticEmbedding", "Pooling"),
    ],
)
def test_other_modules_are_named(types: tuple[str, ...], folder: Path) -> None:
    kinds(folder, *types)
    with pytest.raises(ConfigError, match=rf"has the modules .*\.?{types[-1]} in '") as caught:
        from_pipeline(str(folder), trust_remote_code=True)
    assert caught.value.key == "model.name"


def test_a_decoder_is_named(folder: Path) -> None:
    write(tiny("bart"), folder)
    with pytest.raises(ConfigError, match="has the decoder of bart"):
        from_pipeline(str(folder))


def test_capitals_that_the_tokenizer_reads(folder: Path) -> None:
    merge(folder / BERT, do_lower_case=True)
    from_pipeline(str(folder))
    path = folder / "tokenizer.json"
    settings = json.loads(path.read_text())
    settings["normalizer"]["lowercase"] = False
    path.write_text(json.dumps(settings))
    with pytest.raises(ConfigError, match="has do_lower_case=true with a tokenizer that reads capitals"):
        from_pipeline(str(folder))
    merge(folder / BERT, do_lower_case=False)
    from_pipeline(str(folder))


def test_token_types_of_several_kinds(folder: Path) -> None:
    """sentence-transformers gives them to the transformer, as of XLNet's tokenizer."""
    path = folder / "tokenizer.json"
    settings = json.loads(path.read_text())
    for piece in settings["post_processor"]["single"]:
        next(iter(piece.values()))["type_id"] = 1
    path.write_text(json.dumps(settings))
    merge(folder / "tokenizer_config.json", model_input_names=["input_ids", "token_type_ids"])
    assert 1 in AutoTokenizer.from_pretrained(folder)("a")["token_type_ids"]
    with pytest.raises(ConfigError, match="has a tokenizer with token types of several kinds"):
        from_pipeline(str(folder))


@pytest.mark.parametrize(
    ("settings", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": False}, "last_token"),
        ({"pooling_mode_mean_tokens": False}, "mean"),
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": "lasttoken"}, "last_token"),
    ],
)
def test_spellings_of_the_pooling(settings: dict[str, Any], pooling: str, folder: Path) -> None:
    merge(folder / POOLING, **settings)
    assert from_pipeline(str(folder)).config.pooling == pooling


@pytest.mark.parametrize("file", [POOLING, DENSE])
def test_settings_that_are_absent(file: str, folder: Path) -> None:
    (folder / file).unlink()
    with pytest.raises(CheckpointError, match=f"{folder}.*{file.partition('/')[0]}"):
        from_pipeline(str(folder))


@pytest.mark.parametrize("settings", [{"out_features": 9}, {"bias": False}, {"in_features": 16}])
def test_a_dense_layer_of_another_shape(settings: dict[str, Any], folder: Path) -> None:
    merge(folder / DENSE, **settings)
    with pytest.raises(CheckpointError, match="weights in 2_Dense do not fit"):
        from_pipeline(str(folder))


@pytest.mark.parametrize(
    ("stated", "of_tokenizer", "limit"),
    [(100, 50, 100), (40, 50, 40), (None, 50, 50), (None, None, 256), (1000, None, 256)],
)
def test_the_length(stated: int | None, of_tokenizer: int | None, limit: int, folder: Path) -> None:
    """That of the pipeline counts before that of the tokenizer, and neither exceeds the positions."""
    merge(folder / BERT, max_seq_length=stated)
    if of_tokenizer is not None:
        merge(folder / "tokenizer_config.json", model_max_length=of_tokenizer)
    encoder = sts_lightning.load(folder)
    assert len(encoder.tokenizer(["a dog runs " * 200])[0]) == limit


@pytest.mark.parametrize("name", OLD)
def test_older_names_of_the_settings(name: str, folder: Path) -> None:
    merge(folder / f"sentence_{name}_config.json", max_seq_length=40)
    assert from_pipeline(str(folder)).tokenizer.lengths.model == 40
    merge(folder / BERT, max_seq_length=30)
    assert from_pipeline(str(folder)).tokenizer.lengths.model == 30


def test_a_transformer_in_a_folder_of_its_own(folder: Path) -> None:
    expected = sts_lightning.load(folder).encode(TEXTS)
    inner = folder / "0_Transformer"
    inner.mkdir()
    for path in [path for path in folder.iterdir() if path.is_file() and path.name != "modules.json"]:
        path.rename(inner / path.name)
    merge(inner / BERT, max_seq_length=40)
    kinds(folder, *KINDS, first="0_Transformer")
    encoder = sts_lightning.load(folder)
    assert encoder.tokenizer.lengths.model == 40
    np.testing.assert_array_equal(encoder.encode(TEXTS), expected)


def test_a_normalisation_without_a_folder(folder: Path) -> None:
    kinds(folder, *KINDS)
    entries = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps([*entries[:-1], entries[-1] | {"path": ""}]))
    assert from_pipeline(str(folder)).config.normalize


@pytest.mark.parametrize("prompt", ["default", "by name"])
def test_a_prompt_that_the_pooling_leaves_out(prompt: str, folder: Path) -> None:
    merge(folder / POOLING, include_prompt=False)
    merge(folder / WHOLE, prompts={"a": "one "}, default_prompt_name="a" if prompt == "default" else None)
    with pytest.raises(ConfigError, match="include_prompt=false"):
        from_pipeline(str(folder), prompt_name="a" if prompt == "by name" else None)
    merge(folder / POOLING, pooling_mode="lasttoken")
    assert from_pipeline(str(folder), prompt_name="a").tokenizer.template == "one {sentence}"


def test_prompts_by_role_that_the_pooling_leaves_out(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    merge(folder / POOLING, include_prompt=False)
    merge(folder / WHOLE, prompts={"query": "q : ", "document": ""})
    assert from_pipeline(str(folder)).tokenizer.roles == {}
    assert "its prompts by role are left out" in caplog.text


def test_a_prompt_with_a_slot_of_its_own(folder: Path) -> None:
    merge(folder / WHOLE, prompts={"a": "of {sentence} : "}, default_prompt_name="a")
    with pytest.raises(ValueError, match="exactly once"):
        from_pipeline(str(folder))


def test_the_first_values(folder: Path) -> None:
    expected = sts_lightning.load(folder).encode(TEXTS)[:, :3]
    merge(folder / WHOLE, truncate_dim=3)
    np.testing.assert_array_equal(sts_lightning.load(folder).encode(TEXTS), expected)


@pytest.mark.parametrize(
    ("similarity", "normalize", "said"),
    [("dot", False, True), ("manhattan", True, True), ("dot", True, False), (None, False, False)],
)
def test_another_similarity_is_named(
    similarity: str | None, normalize: bool, said: bool, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kinds(folder, *KINDS[: 4 if normalize else 3])
    merge(folder / WHOLE, similarity_fn_name=similarity)
    with caplog.at_level(logging.WARNING, "sts_lightning"):
        from_pipeline(str(folder))
    assert (f"trained for similarity {similarity!r}" in caplog.text) == said


def test_a_plan_reads_no_weights_of_the_transformer(folder: Path) -> None:
    merge(folder / WHOLE, prompts={"a": "one "}, default_prompt_name="a")
    seen: list[str | None] = []

    def stand_in(base: Base, *loading: Any) -> Any:
        seen.append(base.name)
        return tiny("bert").to("meta"), character_tokenizer()

    encoder = from_pipeline(str(folder), loader=stand_in)
    assert seen == [str(folder)]
    assert (encoder.dimension, encoder.config.normalize, encoder.tokenizer.template) == (
        8,
        True,
        "one {sentence}",
    )
    assert all(weight.is_meta for weight in encoder.parameters())


def test_weights_are_read_once(folder: Path) -> None:
    loads: list[Any] = []

    def counted(base: Base, *loading: Any) -> Any:
        loads.append((base.name, base.dtype))
        return load_backbone(base, *loading)

    encoder = from_pipeline(str(folder), dtype="bfloat16", loader=counted)
    assert loads == [(str(folder), "bfloat16")]
    assert encoder.plain_backbone.dtype == torch.bfloat16


def test_positions_that_begin_at_the_padding_index(tmp_path: Path) -> None:
    """A table that is just long enough: rows of 128 tokens, as a plain loop reads them."""
    path = tmp_path / "roberta"
    write(tiny("roberta", max_position_embeddings=130, pad_token_id=1), path)
    kinds(path, *KINDS[:2])
    merge(path / POOLING, word_embedding_dimension=32, pooling_mode_mean_tokens=True)
    texts = ["a dog runs .", "a dog runs " * 60]
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModel.from_pretrained(path).eval()
    tokenizer.pad_token_id = 1
    rows = tokenizer(texts, padding=True, truncation=True, max_length=128, return_tensors="pt")
    assert rows["input_ids"].shape == (2, 128)
    with torch.no_grad():
        found = model(rows["input_ids"], rows["attention_mask"]).last_hidden_state
    mask = rows["attention_mask"][..., None]
    expected = (found * mask).sum(1) / mask.sum(1)
    np.testing.assert_allclose(sts_lightning.load(path).encode(texts), expected, atol=1e-5)


def test_a_tokenizer_without_a_padding_token(tmp_path: Path) -> None:
    path = tmp_path / "gpt2"
    write(tiny("gpt2"), path)
    merge(path / "tokenizer_config.json", pad_token=None, eos_token="[SEP]")
    kinds(path, *KINDS[:2])
    merge(path / POOLING, embedding_dimension=32, pooling_mode="mean")
    assert AutoTokenizer.from_pretrained(path).pad_token is None
    expected = np.stack([hidden(path, text).mean(axis=0) for text in TEXTS])
    np.testing.assert_allclose(sts_lightning.load(path).encode(TEXTS), expected, atol=1e-5)


@pytest.fixture
def static(tmp_path: Path) -> Path:
    path = tmp_path / "static"
    path.mkdir()
    tokenizer = character_tokenizer()
    tokenizer.backend_tokenizer.save(str(path / "tokenizer.json"))
    table = torch.arange(float(len(tokenizer)) * 4).view(-1, 4).cos()
    save_file({"embedding.weight": table}, path / "model.safetensors")
    kinds(path, "StaticEmbedding", first=".")
    return path


def mean_of_rows(static: Path, table: torch.Tensor, text: str, length: int | None = None) -> np.ndarray:
    tokenizer = character_tokenizer()
    ids = tokenizer(text, add_special_tokens=False)["input_ids"][:length]
    return np.asarray(table[ids].mean(dim=0))


def test_static_embeddings(static: Path) -> None:
    table = load_file(static / "model.safetensors")["embedding.weight"]
    expected = np.stack([mean_of_rows(static, table, text) for text in TEXTS])
    np.testing.assert_allclose(sts_lightning.load(static).encode(TEXTS), expected, atol=1e-6)
    inner = static / "0_StaticEmbedding"
    inner.mkdir()
    for name in ("model.safetensors", "tokenizer.json"):
        (static / name).rename(inner / name)
    kinds(static, "StaticEmbedding", first="0_StaticEmbedding")
    np.testing.assert_allclose(sts_lightning.load(static).encode(TEXTS), expected, atol=1e-6)


def test_a_tokenizer_file_that_truncates(static: Path) -> None:
    """As the tokenizers library does by itself."""
    tokenizer = character_tokenizer().backend_tokenizer
    tokenizer.enable_truncation(5)
    tokenizer.save(str(static / "tokenizer.json"))
    table = load_file(static / "model.safetensors")["embedding.weight"]
    expected = np.stack([mean_of_rows(static, table, text, 5) for text in TEXTS])
    np.testing.assert_allclose(sts_lightning.load(static).encode(TEXTS), expected, atol=1e-6)


def test_a_folder_of_model2vec(static: Path) -> None:
    table = load_file(static / "model.safetensors")["embedding.weight"]
    (static / "modules.json").unlink()
    merge(static / "config.json", model_type="model2vec", normalize=True)
    mapping, weights = torch.arange(len(table)).flip(0) // 2, torch.linspace(0.5, 2, len(table))
    save_file({"embeddings": table, "mapping": mapping, "weights": weights}, static / "model.safetensors")
    rows = table[mapping] * weights[:, None]
    expected = np.stack([mean_of_rows(static, rows, text) for text in TEXTS])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(sts_lightning.load(static).encode(TEXTS), expected, atol=1e-6)


def change(**tensors: torch.Tensor) -> Callable[[Path], None]:
    return lambda path: save_file(tensors, path / "model.safetensors")


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (
            change(embeddings=torch.ones(99, 4, dtype=torch.int8)),
            ConfigError,
            r"a table of embeddings \(torch.int8\)",
        ),
        (change(weight=torch.ones(99, 4)), ConfigError, r"a table of weight \(torch.float32\)"),
        (change(embeddings=torch.ones(3, 4)), ConfigError, "tokens more than the table has rows"),
        (lambda path: (path / "tokenizer.json").unlink(), CheckpointError, "lacks tokenizer.json"),
        (lambda path: (path / "tokenizer.json").write_text("{}"), ConfigError, "cannot load"),
        (
            lambda path: (path / "model.safetensors").unlink(),
            CheckpointError,
            "lacks model.safetensors and pytorch",
        ),
        (lambda path: (path / "model.safetensors").write_bytes(b"x"), CheckpointError, "cannot be read"),
    ],
)
def test_broken_static_embeddings(
    damage: Callable[[Path], None], error: type[Exception], message: str, static: Path
) -> None:
    damage(static)
    with pytest.raises(error, match=message) as caught:
        sts_lightning.load(static)
    assert str(static) in str(caught.value)
