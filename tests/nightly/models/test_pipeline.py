"""Encoders with a model's own pipeline, against sentence-transformers."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from tokenizers.processors import TemplateProcessing
from torch import nn
from transformers import PreTrainedTokenizerFast, Qwen3Model

import sts_lightning
from sts_lightning.core.errors import CheckpointError, ConfigError, UserError
from sts_lightning.export.export import export
from sts_lightning.export.merged import write_merged
from sts_lightning.models.loading.hub import OWN_FILE, packaged_copy
from sts_lightning.models.loading.pipeline import from_pipeline
from sts_lightning.models.loading.quantization import dequantized
from sts_lightning.models.loading.run import build_encoder, set_evaluation_text
from sts_lightning.runs.folder import RunFolder
from sts_lightning.testing.tiny_bert import character_tokenizer
from sts_lightning.testing.tiny_decoders import tiny_llama
from sts_lightning.workflows.start import train_in
from tests.conftest import SHORT_DATA, SHORT_RUN
from tests.support.averaged_runs import dev_of
from tests.support.families import COMMON, NEEDED, tiny, write
from tests.support.st_folders import TEXTS, st_folder
from tests.unit.models.test_backbone import Call

Config = Callable[..., DictConfig]

PIPELINES: dict[str, dict[str, Any]] = {
    "mean, normalised": {"normalize": True},
    "cls": {"pooling": "cls"},
    "two dense layers": {"dense": ((48, nn.Identity()), (8, nn.Tanh())), "normalize": True},
    "prompt": {"prompts": {"query": "query : ", "passage": "p : "}, "default_prompt_name": "query"},
    "last token": {"model_type": "qwen3", "pooling": "lasttoken"},
    "length of the model": {"max_seq_length": None},
    "first values": {"normalize": True, "truncate_dim": 10},
    "prompt outside the pooling": {
        "model_type": "qwen3",
        "pooling": "lasttoken",
        "prompts": {"query": "query : "},
        "default_prompt_name": "query",
        "include_prompt": False,
    },
}


@pytest.mark.parametrize("case", list(PIPELINES))
def test_vectors_are_those_of_sentence_transformers(case: str, tmp_path: Path, config: Config) -> None:
    folder, library = st_folder(tmp_path, **PIPELINES[case])
    expected = library.encode(TEXTS)
    scale = abs(expected).max()
    np.testing.assert_allclose(sts_lightning.load(folder).encode(TEXTS), expected, atol=4e-7 * scale)
    cfg = config("model=encoder", f"model.name={folder}", "data=toy")
    encoder = set_evaluation_text(build_encoder(cfg.model, cfg.prompt), "none", None).eval()
    assert encoder.dimension == expected.shape[1]
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=4e-7 * scale)


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({"quantization": "4bit"}, 1e-5),
        ({"quantization": "4bit", "dtype": "bfloat16"}, 0.02),
        ({"quantization": "8bit"}, 0.03),
        ({"dtype": "bfloat16"}, 0.02),
    ],
)
def test_a_large_model_is_at_no_time_in_full_precision(
    options: dict[str, Any], tolerance: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vectors are the library's with the same values."""
    dense = ((8, nn.Identity()),)
    folder, library = st_folder(tmp_path, "qwen3", pooling="lasttoken", dense=dense, normalize=True)
    sizes: list[int] = []
    forward = Qwen3Model.forward

    def seen(self: Qwen3Model, *args: Any, **kwargs: Any) -> Any:
        linear = [layer for layer in self.layers.modules() if isinstance(layer, nn.Linear)]
        sizes.append(max(layer.weight.element_size() for layer in linear))
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(Qwen3Model, "forward", seen)
    encoder = from_pipeline(folder, **options)
    assert len(sizes) > 1
    assert max(sizes) <= 2
    vectors = encoder.encode(TEXTS)
    library[0].model.load_state_dict(dequantized(encoder.plain_backbone).state_dict())
    np.testing.assert_allclose(vectors, library.encode(TEXTS), atol=tolerance)


def old_files(folder: Path) -> None:
    """Spell everything as the library did in its first versions."""
    inner = folder / "0_Transformer"
    inner.mkdir()
    for path in [path for path in folder.iterdir() if path.is_file() and path.name != "modules.json"]:
        path.rename(inner / path.name)
    (inner / "sentence_bert_config.json").unlink()
    (inner / "sentence_distilbert_config.json").write_text('{"max_seq_length": 40, "do_lower_case": true}')
    flags = {
        "pooling_mode_cls_token": True,
        "pooling_mode_mean_tokens": False,
        "pooling_mode_max_tokens": False,
    }
    settings = {"word_embedding_dimension": 32, "pooling_mode_mean_sqrt_len_tokens": False, **flags}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    (folder / "3_Normalize" / "config.json").unlink()
    kinds = ("0_Transformer", "1_Pooling", "2_Dense", "3_Normalize")
    modules = [
        {"idx": index, "name": str(index), "path": kind, "type": f"sentence_transformers.models.{kind[2:]}"}
        for index, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    path = folder / "2_Dense" / "model.safetensors"
    torch.save(load_file(path), path.with_name("pytorch_model.bin"))
    path.unlink()


def test_files_of_the_first_versions(tmp_path: Path) -> None:
    folder, _ = st_folder(tmp_path, pooling="cls", dense=((8, nn.Tanh()),), normalize=True)
    old_files(Path(folder))
    library = SentenceTransformer(folder, device="cpu")
    assert library.max_seq_length == 40
    np.testing.assert_allclose(sts_lightning.load(folder).encode(TEXTS), library.encode(TEXTS), atol=4e-7)


@pytest.mark.parametrize(
    "model_type",
    [*COMMON, "deberta-v2", "falcon", "gemma3_text", "longt5", "mamba", "switch_transformers", "t5", "xlnet"],
)
def test_families(model_type: str, tmp_path: Path) -> None:
    folder, library = st_folder(tmp_path, model_type, settings=NEEDED.get(model_type))
    expected = library.encode(TEXTS)
    vectors = sts_lightning.load(folder).encode(TEXTS)
    np.testing.assert_allclose(vectors, expected, atol=4e-7 * abs(expected).max())


def test_a_decoder_that_the_library_runs_too_is_rejected(tmp_path: Path) -> None:
    folder, _ = st_folder(tmp_path, "bart")
    with pytest.raises(ConfigError, match="the decoder of bart"):
        sts_lightning.load(folder)


def framing(before: str, after: str) -> PreTrainedTokenizerFast:
    """A tokenizer that puts words of its own around each sentence."""
    tokenizer = character_tokenizer()
    pieces = ["[CLS]", *before, "$A", *after, "[SEP]"]
    known = tokenizer.get_vocab()
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=" ".join(pieces), special_tokens=[(piece, known[piece]) for piece in {*pieces} - {"$A"}]
    )
    return tokenizer


@pytest.mark.parametrize("prompt", [None, "query : "])
@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken"])
def test_a_tokenizer_that_adds_words_of_its_own(
    pooling: str, prompt: str | None, tmp_path: Path, config: Config
) -> None:
    """Long sentences are cut, the words stay."""
    prompts = {} if prompt is None else {"prompts": {"q": prompt}, "default_prompt_name": "q"}
    folder, library = st_folder(
        tmp_path, pooling=pooling, max_seq_length=40, tokenizer=framing("finds", "inthisbook"), **prompts
    )
    cfg = config("model=encoder", f"model.name={folder}", "data=toy")
    encoder = set_evaluation_text(build_encoder(cfg.model, cfg.prompt), "none", None)
    assert len(encoder.tokenizer(TEXTS[-1:])[0]) == 40
    np.testing.assert_allclose(encoder.encode(TEXTS), library.encode(TEXTS), atol=4e-7)
    if prompt is None:
        with pytest.raises(ValueError, match=r"max_length must be at least 18.*adds 17 tokens"):
            encoder.set_evaluation(max_length=17)
        with pytest.raises(
            ConfigError, match=r"model\.max_length must be at least 18.*got 8.*adds 17 tokens"
        ):
            build_encoder(
                config("model=encoder", f"model.name={folder}", "model.max_length=8").model, cfg.prompt
            )


def test_a_tokenizer_that_leaves_no_room(tmp_path: Path) -> None:
    folder, _ = st_folder(tmp_path, max_seq_length=17, tokenizer=framing("finds", "inthisbook"))
    with pytest.raises(CheckpointError, match=r"max_length must be at least 18, got 17"):
        sts_lightning.load(folder)


STARTS: dict[str, dict[str, Any]] = {
    "leaf_mt": {
        "dense": ((64, nn.Identity()),),
        "bias": False,
        "prompts": {"query": "Represent : ", "document": ""},
    },
    "gist_small": {"pooling": "cls", "normalize": True},
    "gist_all_minilm": {"normalize": True},
    "gte_small": {"normalize": True},
    "gte_modernbert": {"model_type": "modernbert", "pooling": "cls"},
    "modernbert_embed": {
        "model_type": "modernbert",
        "normalize": True,
        "prompts": {"STS": "classification: "},
        "default_prompt_name": "STS",
    },
}
"""Small encoders to start from, smaller still."""


PUBLISHED: dict[str, dict[str, Any]] = {
    "mpnet_base": {"model_type": "mpnet", "normalize": True},
    "modernbert_base": {"model_type": "modernbert"},
    "bge_base": {"pooling": "cls", "normalize": True},
    "e5_base": {"normalize": True, "prompts": {"x": "query: "}, "default_prompt_name": "x"},
    "mxbai_large": {"pooling": "cls", "prompts": {"query": "Represent : "}},
    **STARTS,
    "embeddinggemma": {
        "model_type": "gemma3_text",
        "settings": {"use_bidirectional_attention": True},
        "dense": ((64, nn.Identity()), (32, nn.Identity())),
        "normalize": True,
        "prompts": {"STS": "task: sentence similarity | query: "},
        "default_prompt_name": "STS",
    },
    "qwen3_embedding_0_6b": {
        "model_type": "qwen3",
        "pooling": "lasttoken",
        "normalize": True,
        "prompts": {"query": "Instruct: "},
    },
}
"""Pipelines of the models of conf/model that are published as such, in small."""


@pytest.mark.parametrize("choice", list(PUBLISHED))
def test_a_configuration_of_conf_gives_the_vectors_of_its_pipeline(
    choice: str, tmp_path: Path, config: Config
) -> None:
    folder, library = st_folder(tmp_path, **PUBLISHED[choice])
    cfg = config(f"model={choice}", f"model.name={folder}", "data=toy", "model.max_length=50")
    encoder = build_encoder(cfg.model, cfg.prompt).eval()
    texts = TEXTS[:-1]
    expected = library.encode(texts)
    np.testing.assert_allclose(encoder.encode(texts), expected, atol=2e-6 * abs(expected).max())


def test_a_prompt_by_name(tmp_path: Path) -> None:
    folder, library = st_folder(tmp_path, prompts={"a": "one ", "b": "another "}, default_prompt_name="a")
    for name in ("a", "b"):
        found = from_pipeline(folder, prompt_name=name).eval()
        found.set_evaluation(max_length=None)
        np.testing.assert_allclose(found.encode(TEXTS), library.encode(TEXTS, prompt_name=name), atol=1e-5)
    with pytest.raises(ConfigError, match="a, b") as caught:
        from_pipeline(folder, prompt_name="c")
    assert caught.value.key == "model.prompt_name"
    with pytest.raises(ConfigError, match="exclude") as caught:
        from_pipeline(folder, prompt_name="a", template="it : {sentence}")
    assert caught.value.key == "model.prompt_name"


def test_a_prompt_that_leaves_no_room(tmp_path: Path) -> None:
    prompts = {"a": "search the web for : "}
    folder, _ = st_folder(tmp_path, prompts=prompts, default_prompt_name="a")
    path = Path(folder) / "sentence_bert_config.json"
    path.write_text(json.dumps({"max_seq_length": 20}))
    with pytest.raises(CheckpointError, match="max_length must be at least 3, got 2") as caught:
        sts_lightning.load(folder)
    assert caught.value.key == "model.name"


def test_a_setting_takes_precedence_over_the_pipeline(tmp_path: Path) -> None:
    folder, library = st_folder(
        tmp_path,
        dense=((8, nn.Tanh()),),
        normalize=True,
        prompts={"a": "one "},
        default_prompt_name="a",
    )
    encoder = from_pipeline(
        folder,
        pooling="cls",
        projection="none",
        normalize=False,
        template="{sentence}",
        max_length=20,
        limit=30,
    ).eval()
    assert (encoder.config.pooling, encoder.dimension, encoder.config.normalize) == ("cls", 32, False)
    assert (encoder.tokenizer.lengths.train, encoder.tokenizer.lengths.model) == (20, 30)
    hidden = library[0].model(**library.tokenizer(["a dog"], return_tensors="pt")).last_hidden_state[0, 0]
    np.testing.assert_allclose(encoder.encode(["a dog"])[0], hidden.detach().numpy(), atol=1e-5)


def test_an_export_of_0_3_with_another_layer(tmp_path: Path) -> None:
    folder = write(tiny("bert"), tmp_path)
    (Path(folder) / "sts_lightning.json").write_text('{"pooling": "mean", "layer": -2, "max_length": 64}')
    assert from_pipeline(folder).config.layer == -2
    with pytest.raises(ValueError, match="max_length must be at least 3, got 0"):
        from_pipeline(folder, max_length=0)


def test_a_projection_that_is_given_and_the_dense_layers(tmp_path: Path) -> None:
    """``always`` keeps them; another one has new layers, which evaluation does not read."""
    folder, library = st_folder(tmp_path, dense=((8, nn.Tanh()),))
    kept = from_pipeline(folder, projection="always").encode(["a dog"])
    np.testing.assert_allclose(kept, library.encode(["a dog"]), atol=1e-5)
    assert from_pipeline(folder, projection="train").dimension == 32


def test_a_kernel_of_the_transformer_is_code(tmp_path: Path) -> None:
    folder, _ = st_folder(tmp_path)
    path = Path(folder) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"_attn_implementation": "org/x"}))
    with pytest.raises(ConfigError, match="asks for the kernel org/x, which is code"):
        from_pipeline(folder)


@pytest.mark.parametrize("kind", ["os.system", "mine.Mine", "sentence_transformers.base.modules.Router"])
@pytest.mark.parametrize("trust", [False, True])
def test_modules_of_other_classes_are_not_run(kind: str, trust: bool, tmp_path: Path) -> None:
    folder, _ = st_folder(tmp_path)
    (Path(folder) / "mine.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\nclass Mine: pass\n")
    path = Path(folder) / "modules.json"
    modules = json.loads(path.read_text())
    for position in (0, 1):
        changed = [{**module, "type": kind} if i == position else module for i, module in enumerate(modules)]
        path.write_text(json.dumps(changed))
        with pytest.raises(ConfigError, match=f"the modules .*{kind}"):
            from_pipeline(folder, trust_remote_code=trust)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["os.system", "mine.Mine"])
def test_the_library_runs_no_code_of_a_folder_either(kind: str, tmp_path: Path) -> None:
    """Whatever our own list of modules admits, the library asks for consent."""
    folder, _ = st_folder(tmp_path)
    (Path(folder) / "mine.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\nclass Mine: pass\n")
    path = Path(folder) / "modules.json"
    modules = json.loads(path.read_text())
    path.write_text(json.dumps([{**modules[0], "type": kind}, *modules[1:]]))
    with pytest.raises(ValueError, match="trust_remote_code"):
        SentenceTransformer(folder, device="cpu")
    assert not (tmp_path / "run").exists()


def test_a_pipeline_with_weights_of_the_older_format(tmp_path: Path) -> None:
    folder, library = st_folder(tmp_path, pooling="cls", dense=((8, nn.Tanh()),), normalize=True)
    expected = library.encode(TEXTS)
    for part in ("", "2_Dense"):
        path = Path(folder) / part / "model.safetensors"
        torch.save(load_file(path), path.with_name("pytorch_model.bin"))
        path.unlink()
    np.testing.assert_allclose(sts_lightning.load(folder).encode(TEXTS), expected, atol=4e-7)


@pytest.mark.parametrize("part", ["", "2_Dense"])
def test_pickled_weights_are_not_run(part: str, tmp_path: Path) -> None:
    folder, _ = st_folder(tmp_path, dense=((8, nn.Tanh()),))
    (Path(folder) / part / "model.safetensors").unlink()
    torch.save({"linear.weight": Call(tmp_path / "run")}, Path(folder) / part / "pytorch_model.bin")
    with pytest.raises(UserError):
        from_pipeline(folder)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("wrong", ["absent", "cut", "not finite"])
def test_weights_of_a_dense_layer(wrong: str, tmp_path: Path) -> None:
    folder, _ = st_folder(tmp_path, dense=((8, nn.Tanh()),))
    path = Path(folder) / "2_Dense" / "model.safetensors"
    weights = load_file(path)
    if wrong == "absent":
        path.unlink()
    elif wrong == "cut":
        path.write_bytes(path.read_bytes()[:50])
    else:
        save_file({**weights, "linear.bias": weights["linear.bias"] * torch.nan}, path)
    with pytest.raises(UserError, match=folder):
        from_pipeline(folder)


def test_the_packaged_copy(monkeypatch: pytest.MonkeyPatch, config: Config) -> None:
    """By its name and as a folder it needs no further library, whose vectors it gives."""
    hub_id, _, revision = config().model.name.partition("@")
    copy = packaged_copy(hub_id, revision)
    if copy is None:
        pytest.skip("the extra offline is not installed")
    expected = SentenceTransformer(str(copy), device="cpu").encode(TEXTS)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    for name in (hub_id, str(copy)):
        np.testing.assert_allclose(sts_lightning.load(name).encode(TEXTS), expected, atol=4e-7)


EXPORTED: dict[str, Any] = {"pooling": "last_token", "template": "it : {sentence} .", "max_length": 40}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"projection": "always"}, ConfigError, "with projection, which it does not hold"),
        ({"denoise_evaluation": True}, ConfigError, "with denoise_evaluation, which it does not hold"),
        ({"pooling": "max"}, CheckpointError, "pooling: Input should be .*got max"),
        ({"text_edit": "lower"}, CheckpointError, "text_edit: Input should be"),
        ({"max_length": "40"}, CheckpointError, "limit: Input should be a valid integer"),
        ({"layer": -9}, CheckpointError, "layer must lie between"),
        ({"bidirectional_layers": -2}, CheckpointError, "bidirectional_layers must be at least -1"),
    ],
)
def test_settings_of_an_export(
    change: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    folder = write(tiny("bert"), tmp_path)
    (tmp_path / OWN_FILE).write_text(json.dumps(EXPORTED | change))
    with pytest.raises(error, match=message):
        sts_lightning.load(folder)


def test_an_export_with_all_layers_bidirectional(tmp_path: Path) -> None:
    encoder = tiny_llama(pooling="mean", bidirectional_layers=-1)
    expected = encoder.encode(TEXTS)
    (tmp_path / OWN_FILE).write_text(json.dumps(write_merged(encoder, tmp_path)))
    loaded = sts_lightning.load(tmp_path)
    assert loaded.config.bidirectional_layers == -1
    np.testing.assert_allclose(loaded.encode(TEXTS), expected, atol=1e-6)


def test_another_pooling_than_that_of_the_pipeline_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, _ = st_folder(tmp_path, pooling="cls")

    def load(pooling: str, template: str | None = None) -> None:
        model = {"_target_": "sts_lightning.models.SentenceEncoder.from_pretrained", "name": str(folder)}
        build_encoder(OmegaConf.create(model), OmegaConf.create({"pooling": pooling, "template": template}))

    with caplog.at_level(logging.WARNING, "sts_lightning"):
        load("mean")
    (record,) = [record for record in caplog.records if record.name.startswith("sts_lightning")]
    assert "pooling cls, not mean; model=encoder" in record.getMessage()
    caplog.clear()
    load("cls")
    load("mean", "it : {sentence}")
    assert [record for record in caplog.records if record.name.startswith("sts_lightning")] == []


@pytest.mark.parametrize(("model_type", "pooling"), [("bert", "mean"), ("llama", "last_token")])
def test_a_model_without_a_pipeline(model_type: str, pooling: str, tmp_path: Path) -> None:
    encoder = sts_lightning.load(write(tiny(model_type), tmp_path))
    assert encoder.config.pooling == pooling
    assert not encoder.config.normalize
    assert encoder.tokenizer.lengths.eval == 256  # the positions of the model


@pytest.mark.parametrize("choice", list(STARTS))
def test_a_start_trains_and_comes_out(choice: str, tmp_path: Path, config: Config) -> None:
    folder, _ = st_folder(tmp_path, **STARTS[choice])
    steps = ["trainer.max_steps=2", "optim.lr=1e-2"]
    train_in(tmp_path / "run", config(*SHORT_DATA, *steps, f"model={choice}", f"model.name={folder}"))
    trained = sts_lightning.load(tmp_path / "run").encode(TEXTS)
    assert abs(trained - sts_lightning.load(folder).encode(TEXTS)).max() > 1e-3
    export(tmp_path / "run", tmp_path / "out", "sentence-transformers")
    library = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    np.testing.assert_allclose(library.encode(TEXTS), trained, atol=1e-5 * abs(trained).max())


def test_the_recipe_of_minilm_on_a_start_with_a_dense_layer(tmp_path: Path, config: Config) -> None:
    """Template, average with the start, and export."""
    folder, _ = st_folder(tmp_path, **STARTS["leaf_mt"], max_seq_length=128)
    recipe = ["experiment=minilm_pairs", "model=leaf_mt", f"model.name={folder}"]
    mixed = ["trainer.max_steps=4", "trainer.wise_ft=[0,0.5]", "optim.lr=1e-2", "model.max_length=128"]
    train_in(tmp_path / "run", config(*SHORT_DATA, *recipe, *mixed))
    found = RunFolder(tmp_path / "run").metrics().details["wise_ft"]["dev"]
    eol = config("prompt=eol").prompt.template
    start = from_pipeline(folder, template=eol, max_length=128)
    assert found["0"] == pytest.approx(dev_of(tmp_path / "run", start.state_dict()), abs=1e-2)
    encoder = sts_lightning.load(tmp_path / "run")
    assert encoder.dimension == 64
    trained = encoder.encode(TEXTS[:-1])
    export(tmp_path / "run", tmp_path / "out", "sentence-transformers")
    np.testing.assert_allclose(sts_lightning.load(tmp_path / "out").encode(TEXTS[:-1]), trained, atol=1e-5)


@pytest.mark.parametrize("case", ["two dense layers", "prompt", "mean, normalised", "first values"])
def test_in_trained_out_and_in_again(case: str, tmp_path: Path, config: Config) -> None:
    folder, _ = st_folder(tmp_path, **PIPELINES[case])
    start = [text for text in SHORT_RUN if not text.startswith("model=")]
    steps = ["trainer.max_epochs=-1", "trainer.max_steps=3", "optim.lr=1e-2", "evaluation.final=false"]
    train_in(tmp_path / "run", config("model=encoder", f"model.name={folder}", *start, *steps))
    trained = sts_lightning.load(tmp_path / "run").encode(TEXTS)
    assert abs(trained - sts_lightning.load(folder).encode(TEXTS)).max() > 1e-3
    export(tmp_path / "run", tmp_path / "out", "sentence-transformers")
    np.testing.assert_allclose(sts_lightning.load(tmp_path / "out").encode(TEXTS), trained, atol=1e-5)
    if "dense" not in PIPELINES[case]:
        export(tmp_path / "run", tmp_path / "merged", "merged")
        np.testing.assert_allclose(sts_lightning.load(tmp_path / "merged").encode(TEXTS), trained, atol=1e-5)


@pytest.mark.parametrize(
    "overrides",
    [
        ["model=tiny_bert", "prompt=promptbert"],
        ["model=tiny_mistral", "prompt=eol", "evaluation.text_edit=official"],
        ["model=tiny_bert", "model.projection=always", "model.pooling=cls"],
    ],
    ids=["mask", "edited", "projection"],
)
def test_an_export_of_a_template_comes_in_again(overrides: list[str], tmp_path: Path, config: Config) -> None:
    start = [text for text in SHORT_RUN if not text.startswith("model=")]
    train_in(tmp_path / "run", config(*start, *overrides, "evaluation.final=false"))
    expected = sts_lightning.load(tmp_path / "run").encode(TEXTS)
    export(tmp_path / "run", tmp_path / "st", "sentence-transformers")
    np.testing.assert_allclose(sts_lightning.load(tmp_path / "st").encode(TEXTS), expected, atol=1e-5)
    export(tmp_path / "run", tmp_path / "merged", "merged")
    merged = sts_lightning.load(tmp_path / "merged")
    if "model.projection=always" in overrides:  # it is without the layers on top
        assert merged.config == replace(sts_lightning.load(tmp_path / "run").config, projection="none")
        return
    np.testing.assert_allclose(merged.encode(TEXTS), expected, atol=1e-5)
    if merged.config.text_edit == "official":
        with pytest.raises(UserError) as edited:
            set_evaluation_text(merged, "none", None)
        assert edited.value.key == "evaluation.text_edit"


@pytest.mark.parametrize(
    ("trained_for", "normalize", "said"),
    [
        ("dot", False, "trained for similarity 'dot'"),
        ("manhattan", True, "trained for similarity 'manhattan'"),
        ("dot", True, None),
        ("cosine", False, None),
    ],
)
def test_a_model_for_another_similarity_is_named(
    trained_for: str, normalize: bool, said: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The other library says by itself which cosines would have been the same."""
    folder, library = st_folder(tmp_path, normalize=normalize, similarity_fn_name=trained_for)
    encoder = sts_lightning.load(folder)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == (said is not None) and all(str(said) in warning for warning in warnings)
    vectors = library.encode(TEXTS)
    same = np.allclose(encoder.similarity(vectors, vectors), library.similarity(vectors, vectors), atol=1e-5)
    assert same == (said is None)


ROLES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "query and document": (
        {"prompts": {"query": "q : ", "document": "d : "}},
        {"query": "q : ", "document": "d : "},
    ),
    "passage": ({"prompts": {"query": "q : ", "passage": "p : "}}, {"query": "q : ", "document": "p : "}),
    "a query alone": ({"prompts": {"query": "q : ", "document": ""}}, {"query": "q : "}),
    "a default": (
        {"prompts": {"query": "q : ", "document": "", "s": "t : "}, "default_prompt_name": "s"},
        {"query": "q : ", "document": ""},
    ),
    "none": ({"prompts": {"sts": "t : "}, "default_prompt_name": "sts"}, {}),
}


@pytest.mark.parametrize("case", list(ROLES))
def test_prompts_by_role_are_taken_over(
    case: str, tmp_path: Path, config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    settings, expected = ROLES[case]
    folder, library = st_folder(tmp_path, **settings, max_seq_length=40)
    with caplog.at_level(logging.INFO, logger="sts_lightning"):
        encoder = sts_lightning.load(folder)
    assert {role: encoder.tokenizer.prefix_of(role) for role in encoder.tokenizer.roles} == expected
    assert all(f"{role} '{text}{{sentence}}'" in caplog.text for role, text in expected.items())
    texts = [*TEXTS, "a long text " * 30]
    np.testing.assert_allclose(encoder.encode(texts), library.encode(texts), atol=1e-5)
    for role in expected:
        theirs = library.encode(texts, prompt=expected[role])
        np.testing.assert_allclose(encoder.encode(texts, prompt=role), theirs, atol=1e-5)
    cfg = config(
        "model=encoder", f"model.name={folder}", "data=toy", "prompt.query=''", "prompt.document='x '"
    )
    assert build_encoder(cfg.model, cfg.prompt).tokenizer.prefix_of("document") == "x "
    edges = config("model=encoder", f"model.name={folder}", "data=toy", "prompt.template='of {sentence} .'")
    assert build_encoder(edges.model, edges.prompt).tokenizer.roles == {}


def test_prompts_outside_of_the_pooling_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, library = st_folder(tmp_path, prompts={"query": "query : "}, include_prompt=False)
    encoder = sts_lightning.load(folder)
    assert encoder.tokenizer.roles == {}
    assert "prompts by role are left out" in caplog.text
    np.testing.assert_allclose(encoder.encode(TEXTS), library.encode(TEXTS), atol=1e-5)
