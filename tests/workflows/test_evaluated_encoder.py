"""Devices of an evaluation, and the encoder on several of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import DictConfig

from sts_lightning.config.identity import configuration_hash
from sts_lightning.config.machine import decide
from sts_lightning.errors import ConfigError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading import build_encoder
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.predictions import load_predictions
from sts_lightning.sweep.resources import demand_of
from sts_lightning.workflows.evaluate import evaluate_in
from sts_lightning.workflows.evaluated_encoder import (
    encoding_devices,
    encoding_with,
    load_evaluated,
    use_fastest_precision,
)
from sts_lightning.workflows.train import train_in

Config = Callable[..., DictConfig]


def _see(patch: pytest.MonkeyPatch, cuda: int, apple: bool = False) -> None:
    patch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
    patch.setattr(torch.cuda, "device_count", lambda: cuda)
    patch.setattr(torch.backends.mps, "is_available", lambda: apple)


@pytest.mark.parametrize(
    ("accelerator", "count", "visible", "expected"),
    [
        ("auto", 1, 0, ["cpu"]),
        ("auto", -1, 0, ["cpu"]),
        ("auto", 3, 0, ["cpu"] * 3),
        ("cpu", 2, 4, ["cpu"] * 2),
        ("auto", 1, 4, ["cuda:0"]),
        ("gpu", -1, 3, ["cuda:0", "cuda:1", "cuda:2"]),
        ("auto", 2, 3, ["cuda:0", "cuda:1"]),
    ],
)
def test_devices(
    accelerator: str, count: int, visible: int, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _see(monkeypatch, visible)
    assert encoding_devices(accelerator, count) == expected


@pytest.mark.parametrize(
    ("accelerator", "count", "visible", "key", "message"),
    [
        ("gpu", 1, 0, "accelerator", "no CUDA device is visible"),
        ("auto", 0, 0, "devices", "must be at least 1, or -1"),
        ("cpu", -2, 0, "devices", "must be at least 1, or -1"),
        ("auto", 3, 2, "devices", "only 2 CUDA devices are visible"),
    ],
)
def test_devices_that_are_not_there(
    accelerator: str, count: int, visible: int, key: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _see(monkeypatch, visible)
    with pytest.raises(ConfigError, match=message) as caught:
        encoding_devices(accelerator, count)
    assert caught.value.key == key


def test_an_apple_gpu_is_used_as_in_training(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    _see(monkeypatch, 0, apple=True)
    assert decide(config("trainer=auto").trainer).accelerator == "mps"
    assert [encoding_devices(name, 1) for name in ("auto", "mps", "cpu")] == [["mps"], ["mps"], ["cpu"]]
    assert encoding_devices("auto", -1) == ["mps"]
    with pytest.raises(ConfigError, match="only one Apple GPU is visible"):
        encoding_devices("auto", 2)
    assert demand_of(config("accelerator=mps", of="eval")).gpus == 0
    monkeypatch.setattr(SentenceEncoder, "device", torch.device("mps"))
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)  # of no use to it
    encoder = build_encoder(config("model=tiny_bert").model, config("model=tiny_bert").prompt)
    assert use_fastest_precision(encoder).precision == "32-true"
    _see(monkeypatch, 2, apple=True)
    assert encoding_devices("auto", 1) == ["cuda:0"]
    _see(monkeypatch, 0)
    with pytest.raises(ConfigError, match="accelerator=mps, but PyTorch finds no Apple GPU"):
        encoding_devices("mps", 1)


@pytest.mark.parametrize(
    ("device", "instructions", "capability", "precision"),
    [
        ("cpu", "", (0, 0), "32-true"),
        ("cpu", "_is_avx512_bf16_supported", (0, 0), "bf16-true"),
        ("cuda", "", (9, 0), "bf16-true"),
        ("cuda", "", (7, 5), "32-true"),
    ],
)
def test_the_fastest_precision_of_a_device(
    device: str,
    instructions: str,
    capability: tuple[int, int],
    precision: str,
    config: Config,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoder = build_encoder(config("model=tiny_bert").model, config("model=tiny_bert").prompt)
    for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda name=name: name == instructions)
    monkeypatch.setattr(SentenceEncoder, "device", torch.device(device))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert use_fastest_precision(encoder).precision == precision


def test_a_job_of_a_sweep_gets_the_devices_and_its_folder(config: Config) -> None:
    one, two = (config("model=tiny_bert", f"devices={count}", of="eval") for count in (1, 2))
    assert [demand_of(cfg).gpus for cfg in (one, two)] == [1, 2]
    assert configuration_hash(one) == configuration_hash(two)


@pytest.mark.slow
def test_two_processes_give_the_scores_of_one(config: Config, tmp_path: Path) -> None:
    training = ["model=tiny_bert", "data=toy", "trainer.max_steps=2", "trainer=cpu", "logger=csv"]
    train_in(tmp_path / "run", config(*training, "evaluation.final=false"))
    rows = ["sentence1,sentence2,score", "aa bb,aa bc,5", "aa,cc dd,1", "bb,cd,0", "ab ab,ab,4"]
    (tmp_path / "pairs.csv").write_text("\n".join(rows))

    def scored(name: str, *overrides: str) -> RunFolder:
        test = [f"test={tmp_path / 'pairs.csv'}", "accelerator=cpu", f"ckpt={tmp_path / 'run'}"]
        evaluate_in(tmp_path / name, config(*test, *overrides, of="eval"))
        return RunFolder(tmp_path / name)

    one = scored("one")
    two = scored("two", "devices=2", f"cache_dir={tmp_path / 'vectors'}")
    again = scored("again", "devices=2", f"cache_dir={tmp_path / 'vectors'}")
    cosines = [load_predictions(run)["pairs"][0] for run in (one, two, again)]
    np.testing.assert_allclose(cosines[1], cosines[0], atol=1e-6)
    np.testing.assert_array_equal(cosines[2], cosines[1])
    assert [run.metrics().details["devices"] for run in (one, two)] == [1, 2]


@pytest.mark.slow
def test_two_processes_give_the_vectors_of_one(config: Config) -> None:
    cfg = config("model=tiny_bert", "text_edit=official", "max_length=6", "precision=bf16-true", of="eval")
    sentences = [f"{'word ' * length}end" for length in range(1, 12)]
    encoder = load_evaluated(cfg, "cpu")
    with encoding_with(encoder, cfg, ["cpu", "cpu"]) as pool:
        vectors = pool.encode(sentences)
    np.testing.assert_allclose(vectors, encoder.encode(sentences), atol=2e-2)
    assert encoder.precision == "bf16-true"
