"""The precision that `auto` takes, and evaluations in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import DictConfig

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.fingerprint import fingerprint
from sts_lightning.models.int8 import multiplies_int8
from sts_lightning.models.loading import build_encoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.predictions import load_predictions
from sts_lightning.workflows.evaluate import evaluate_in
from sts_lightning.workflows.evaluated_encoder import load_evaluated
from sts_lightning.workflows.fastest_precision import use_fastest_precision

Config = Callable[..., DictConfig]

needs_instructions = pytest.mark.skipif(not multiplies_int8(), reason="needs a CPU with AVX512-VNNI or AMX")


def have(instructions: tuple[str, ...], patch: pytest.MonkeyPatch) -> None:
    for name in ("_is_vnni_supported", "_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        patch.setattr(torch.cpu, name, lambda name=name: name in instructions)


@pytest.mark.parametrize(
    ("model", "instructions", "precision"),
    [
        ("tiny_bert", (), "32-true"),
        ("tiny_bert", ("_is_avx512_bf16_supported",), "bf16-true"),
        ("tiny_bert", ("_is_amx_tile_supported", "_is_vnni_supported"), "bf16-true"),
        ("tiny_mistral", ("_is_avx512_bf16_supported",), "bf16-true"),
        pytest.param("tiny_bert", ("_is_vnni_supported",), "int8", marks=needs_instructions),
    ],
)
def test_the_fastest_of_a_cpu(
    model: str, instructions: tuple[str, ...], precision: str, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(instructions, monkeypatch)
    encoder = load_evaluated(config(f"model={model}", "precision=auto", of="eval"), "cpu")
    assert encoder.precision == precision


@pytest.mark.parametrize(("capability", "precision"), [((9, 0), "bf16-true"), ((7, 5), "32-true")])
def test_the_fastest_of_a_gpu(
    capability: tuple[int, int], precision: str, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = build_encoder(config("model=tiny_bert").model, config("model=tiny_bert").prompt)
    monkeypatch.setattr(SentenceEncoder, "device", torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert use_fastest_precision(encoder).precision == precision


def test_quantised_weights_stay(config: Config) -> None:
    encoder = load_evaluated(config("model=tiny_mistral", "quantization=4bit", of="eval"), "cpu")
    before = fingerprint(encoder)
    assert fingerprint(use_fastest_precision(encoder)) == before


@needs_instructions
@pytest.mark.slow
def test_an_evaluation_in_8_bits(config: Config, tmp_path: Path) -> None:
    rows = ["sentence1,sentence2,score", "aa bb,aa bc,5", "aa,cc dd,1", "bb,cd,0", "ab ab,ab,4"]
    (tmp_path / "pairs.csv").write_text("\n".join(rows))

    def scored(name: str, *overrides: str) -> RunFolder:
        settings = ["model=tiny_bert", f"test={tmp_path / 'pairs.csv'}", "accelerator=cpu", *overrides]
        evaluate_in(tmp_path / name, config(*settings, of="eval"))
        return RunFolder(tmp_path / name)

    cache = f"cache_dir={tmp_path / 'vectors'}"
    runs = [scored("float", cache), scored("int8", cache, "precision=int8")]
    assert [run.metrics().details["precision"] for run in runs] == ["32-true", "int8"]
    cosines = [load_predictions(run)["pairs"][0] for run in runs]
    assert 0 < np.abs(cosines[1] - cosines[0]).max() < 0.02
