"""Folders of adapters as models: those of ours on their base, others merged into it, or rejected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from peft import LoraConfig, PeftConfig, PrefixTuningConfig
from safetensors.torch import load_file, save_file

import sts_lightning
from sts_lightning.core.choices import Quantization
from sts_lightning.core.errors import CheckpointError, ConfigError, UserError
from sts_lightning.export.export import write_adapter
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.hub import OWN_FILE, SETTINGS, WEIGHTS
from sts_lightning.models.loading.meta import load_meta
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.runs.folder import RunFolder
from tests.support.families import tiny, write
from tests.support.hub_server import Hub

TEXTS = ["a dog runs.", "x"]

ALL: dict[str, Any] = {"task_type": "FEATURE_EXTRACTION", "target_modules": "all-linear"}

EMBEDDINGS: dict[str, Any] = {"task_type": "FEATURE_EXTRACTION", "target_modules": ["q", "embed_tokens"]}

PREFIX = PrefixTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=4)


def moved(encoder: SentenceEncoder) -> SentenceEncoder:
    """Move an adapter away from its initial values."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in encoder.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return encoder.eval()


def adapter_folder(
    folder: Path,
    base: str,
    settings: PeftConfig | None = None,
    quantization: Quantization = "none",
    own: bool = True,
) -> np.ndarray:
    """Write an adapter with moved weights, as we do or as peft does; return the vectors of its encoder."""
    settings = settings or LoraConfig(**ALL, r=4)
    encoder = SentenceEncoder.from_pretrained(base, adapter=settings, quantization=quantization)
    vectors = moved(encoder).encode(TEXTS)
    folder.mkdir()
    if own:
        (folder / OWN_FILE).write_text(json.dumps(write_adapter(encoder, folder)))
    else:
        encoder.backbone.save_pretrained(str(folder))
    return vectors


@pytest.mark.parametrize(
    ("model_type", "settings", "quantization"),
    [
        ("bert", LoraConfig(**ALL, r=4), "none"),
        ("gpt2", LoraConfig(**ALL, r=4), "4bit"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_folder_gives_the_vectors_it_was_exported_with(
    model_type: str, settings: PeftConfig, quantization: Quantization, tmp_path: Path
) -> None:
    base = write(tiny(model_type), tmp_path / "base")
    vectors = adapter_folder(tmp_path / "adapter", base, settings, quantization)
    loaded = sts_lightning.load(tmp_path / "adapter")
    np.testing.assert_array_equal(loaded.encode(TEXTS), vectors)
    assert all(("lora" in name) == value.requires_grad for name, value in loaded.named_parameters())
    merged = SentenceEncoder.from_pretrained(str(tmp_path / "adapter"))
    scale = abs(vectors).max()
    np.testing.assert_allclose(merged.encode(TEXTS), vectors, atol=2e-6 * scale)
    bare = SentenceEncoder.from_pretrained(base)
    assert abs(bare.encode(TEXTS) - vectors).max() > 1e-2 * scale
    assert all("lora" not in name and value.requires_grad for name, value in merged.named_parameters())


def publish(hub: Hub, name: str, folder: Path) -> str:
    """Put the files of a folder on the hub, and return their commit."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return hub.add(name, {path.relative_to(folder).as_posix(): path.read_bytes() for path in files})


def test_an_adapter_on_the_hub(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sts_lightning.models.loading.hub.hub_is_reachable", lambda: True)
    base = write(tiny("bert"), tmp_path / "base")
    vectors = adapter_folder(tmp_path / "adapter", base)
    at = publish(hub, "me/base", Path(base))
    rewrite(tmp_path / "adapter", base_model_name_or_path="me/base", revision=at)
    first = publish(hub, "me/adapter", tmp_path / "adapter")
    hub.add("me/adapter", {SETTINGS: b"broken"})
    loaded = sts_lightning.load(f"me/adapter@{first}")
    np.testing.assert_allclose(loaded.encode(TEXTS), vectors, atol=1e-5)
    assert not any(WEIGHTS in request.path for request in hub.requests if "/me/base/" in request.path)
    with pytest.raises(CheckpointError, match="adapter_config"):
        sts_lightning.load("me/adapter")

    monkeypatch.setattr("sts_lightning.models.loading.hub.hub_is_reachable", lambda: False)
    asked = len(hub.requests)
    again = sts_lightning.load(f"me/adapter@{first}")  # from the cache
    np.testing.assert_array_equal(again.encode(TEXTS), loaded.encode(TEXTS))
    assert len(hub.requests) == asked


def test_an_adapter_on_the_hub_without_weights(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sts_lightning.models.loading.hub.hub_is_reachable", lambda: True)
    base = write(tiny("bert"), tmp_path / "base")
    adapter_folder(tmp_path / "adapter", base)
    (tmp_path / "adapter" / WEIGHTS).unlink()
    publish(hub, "me/adapter", tmp_path / "adapter")
    with pytest.raises(CheckpointError, match=f"{WEIGHTS} cannot be read: No such file"):
        sts_lightning.load("me/adapter")
    with pytest.raises(ConfigError, match="me/typo is neither a folder nor a model on the hub"):
        sts_lightning.load("me/typo")


def test_the_shape_of_a_plan_is_that_of_the_base(tmp_path: Path) -> None:
    base = write(tiny("bert", num_hidden_layers=1), tmp_path / "base")
    adapter_folder(tmp_path / "adapter", base)
    target = "sts_lightning.models.encoder.SentenceEncoder.from_pretrained"
    model = OmegaConf.create({"_target_": target, "name": str(tmp_path / "adapter")})
    encoder = build_encoder(model, OmegaConf.create({"pooling": "mean"}), "cpu", load_meta)
    assert (encoder.plain_backbone.config.num_hidden_layers, encoder.device.type) == (1, "meta")


def test_an_adapter_on_an_adapter(tmp_path: Path) -> None:
    adapter_folder(tmp_path / "first", write(tiny("bert"), tmp_path / "base"))
    vectors = adapter_folder(tmp_path / "second", str(tmp_path / "first"))
    np.testing.assert_array_equal(sts_lightning.load(tmp_path / "second").encode(TEXTS), vectors)


def rewrite(folder: Path, **changes: Any) -> None:
    """Change settings of an adapter; None removes one."""
    settings = json.loads((folder / SETTINGS).read_text()) | changes
    kept = {key: value for key, value in settings.items() if value is not None}
    (folder / SETTINGS).write_text(json.dumps(kept))


def cut_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    save_file(change(load_file(folder / WEIGHTS)), folder / WEIGHTS)


BREAKS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no base": (lambda at: rewrite(at, base_model_name_or_path=None), "has no base_model_name_or_path"),
    "base moved": (
        lambda at: rewrite(at, base_model_name_or_path="/nowhere/base"),
        "needs its base /nowhere",
    ),
    "base of another type": (lambda at: rewrite(at, base_model_name_or_path=7), "base_model_name_or_path"),
    "unknown kind": (lambda at: rewrite(at, peft_type="MAGIC"), "adapter_config.json .*MAGIC"),
    "another kind": (lambda at: rewrite(at, peft_type="LOHA"), "not LoHaConfig"),
    "other rank": (lambda at: rewrite(at, r=2), "adapter"),
    "other layers": (lambda at: rewrite(at, target_modules=["q_proj"]), "does not fit BertModel"),
    "no JSON": (lambda at: (at / SETTINGS).write_text("{"), "adapter_config.json .*cannot be read"),
    "a list": (lambda at: (at / SETTINGS).write_text("[]"), "adapter_config.json .*cannot be read"),
    "code": (lambda at: rewrite(at, megatron_config={"a": 1}), "megatron_config"),
    "not repeatable": (lambda at: rewrite(at, init_lora_weights="pissa_niter_4"), "pissa_niter_4"),
    "no weights": (
        lambda at: (at / WEIGHTS).unlink(),
        r"adapter_model.safetensors cannot be read: No such file",
    ),
    "cut off": (
        lambda at: (at / WEIGHTS).write_bytes((at / WEIGHTS).read_bytes()[:-50]),
        "adapter_model.safetensors cannot be read",
    ),
    "NaN": (lambda at: cut_weights(at, lambda w: {k: v * float("nan") for k, v in w.items()}), "NaN"),
    "half of it": (
        lambda at: cut_weights(at, lambda w: dict(list(w.items())[::2])),
        "differ in name or shape",
    ),
    "quantisation": (lambda at: (at / OWN_FILE).write_text('{"quantization": "2bit"}'), "2bit"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    adapter_folder(folder / "adapter", write(tiny("bert"), folder / "base"), own=False)
    return folder / "adapter"


@pytest.mark.parametrize("kind", BREAKS)
def test_a_broken_folder_is_one_error(kind: str, whole: Path, tmp_path: Path) -> None:
    at = tmp_path / "adapter"
    at.mkdir()
    for path in whole.iterdir():
        (at / path.name).write_bytes(path.read_bytes())
    break_it, said = BREAKS[kind]
    break_it(at)
    with pytest.raises(UserError, match=rf"(?s){said}") as caught:
        sts_lightning.load(at)
    assert caught.value.key == "model.name"
    assert "\n" not in str(caught.value)


def test_a_base_of_another_size(whole: Path, tmp_path: Path) -> None:
    at = tmp_path / "adapter"
    at.mkdir()
    for path in whole.iterdir():
        (at / path.name).write_bytes(path.read_bytes())
    rewrite(at, base_model_name_or_path=write(tiny("bert", hidden_size=64), tmp_path / "wide"))
    with pytest.raises(CheckpointError, match="differ in name or shape"):
        sts_lightning.load(at)
    rewrite(at, base_model_name_or_path=write(tiny("bert", num_hidden_layers=1), tmp_path / "shallow"))
    with pytest.raises(CheckpointError, match="differ in name or shape"):
        sts_lightning.load(at)


def test_what_cannot_be_merged(tmp_path: Path) -> None:
    base = write(tiny("bert"), tmp_path / "base")
    vectors = adapter_folder(tmp_path / "adapter", base, PREFIX)
    np.testing.assert_array_equal(sts_lightning.load(tmp_path / "adapter").encode(TEXTS), vectors)
    with pytest.raises(ConfigError, match=r"PREFIX_TUNING cannot be merged; load the run") as caught:
        SentenceEncoder.from_pretrained(str(tmp_path / "adapter"))
    assert caught.value.key == "model.name"


def test_a_merged_model_is_not_quantised(whole: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        SentenceEncoder.from_pretrained(str(whole), quantization="4bit")
    assert caught.value.key == "model.quantization"
    assert "merged" in str(caught.value.hint)


def test_as_a_run_it_is_named_as_a_model(whole: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a run folder") as caught:
        RunFolder(whole).load_config()
    assert f"model.name={whole}" in str(caught.value.hint)
