"""Where weights are loaded to, and the test of the encoder computes, on an emulated GPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig

import sts_lightning
from sts_lightning.cli.main import main
from sts_lightning.models.chunk_encoder import ChunkEncoder
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.encoding import Base
from sts_lightning.models.loading import pipeline
from sts_lightning.models.loading.backbone import Loaded, load_backbone
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.workflows.evaluate import load_evaluated
from sts_lightning.workflows.start import train_in
from tests.support.emulated_gpu import emulated_gpu
from tests.support.emulated_runs import DECODER, TOY_RUN

Config = Callable[..., DictConfig]


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Devices of the tensors that the test of each encoder has computed with."""
    found: list[str] = []
    probe, embed = SentenceEncoder._probe, ChunkEncoder.embed_chunk

    def watched(encoder: SentenceEncoder) -> bool:
        def embedded(*arguments: Any, **options: Any) -> torch.Tensor:
            vectors = embed(encoder, *arguments, **options)
            found.append(vectors.device.type)
            return vectors

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(encoder, "embed_chunk", embedded)
            return probe(encoder)

    monkeypatch.setattr(SentenceEncoder, "_probe", watched)
    return found


def test_a_command_tests_the_encoder_where_it_computes(
    probed: list[str], config: Config, tmp_path: Path
) -> None:
    def seen() -> set[str]:
        devices = {*probed}
        probed.clear()
        return devices

    settings = [
        *TOY_RUN,
        *DECODER,
        "model.quantization=none",
        "trainer.max_steps=1",
        "model.projection=always",
    ]
    run, pairs = tmp_path / "run", tmp_path / "pairs.csv"
    pairs.write_text("sentence1,sentence2\na dog,a cat\n")
    with emulated_gpu():
        train_in(run, config(*settings))
        assert seen() == {"cuda"}
        train_in(tmp_path / "cpu", config(*settings, "trainer=cpu", "precision=32-true"))
        assert seen() == {"cpu"}
        for ckpt in ([f"ckpt={run}"], DECODER):
            load_evaluated(config(*ckpt, of="eval"), "cuda:0")
            assert seen() == {"cuda"}
        main(["similarity", str(run), str(pairs)])
        assert seen() == {"cuda"}
        encoder = sts_lightning.load(run)
        assert (seen(), encoder.device.type) == ({"cpu"}, "cpu")
        encoder = sts_lightning.load(run, device="cuda")
        assert {each.device.type for each in encoder.parameters()} == {"cuda"}


def test_a_seed_draws_the_same_weights_on_the_card(config: Config) -> None:
    cfg, found = config(*DECODER, "model.projection=always"), list[dict[str, torch.Tensor]]()
    with emulated_gpu():
        for device in ("cpu", "cuda"):
            torch.manual_seed(0)
            encoder = build_encoder(cfg.model, cfg.prompt, device)
            found.append({name: value.cpu() for name, value in encoder.state_dict().items()})
    for name, value in found[0].items():
        assert value.equal(found[1][name]), name


def test_an_export_computes_where_it_is_told(
    probed: list[str], config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def export(*options: str) -> str:
        with pytest.raises(SystemExit) if "cuda" in options else nullcontext() as left:
            main(["export", str(run), str(tmp_path / f"on {len(places)}"), *options])
        return str(left and left.value)

    run, places = tmp_path / "run", list[str | None]()
    train_in(run, config(*TOY_RUN, *DECODER, "trainer=cpu", "precision=32-true", "trainer.max_steps=1"))

    def load(base: Base, trust_remote_code: bool, device: str | None) -> Loaded:
        places.append(device)  # of quantised weights too
        return load_backbone(base, trust_remote_code, device)

    monkeypatch.setattr(pipeline, "load_backbone", load)
    with emulated_gpu(total_memory=2**14) as gpu:
        said = export("--device", "cuda")
        assert said.startswith("error: memory ran out (")
        assert said.endswith(". `--device cpu` takes the host's memory.")
        gpu.reset_peak()
        probed.clear()
        export("--device", "cpu")
        assert ({*probed}, gpu.peak, places) == ({"cpu"}, gpu.used, ["cuda:0", "cpu"])
    assert "--device=cuda, but no CUDA device is visible" in export("--device", "cuda")
