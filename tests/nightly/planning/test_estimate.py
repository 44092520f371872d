"""Plans of whole runs: extrapolations against full traces, the largest micro batch against its neighbours."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from omegaconf import DictConfig

from sts_lightning.config.check import check_config
from sts_lightning.config.compose import compose_train
from sts_lightning.planning import estimate as module
from sts_lightning.planning.estimate import Tracer, estimate
from sts_lightning.planning.gpus import Device

Config = Callable[..., DictConfig]

SMALL = ["data=toy", "data.train_size=256", "data.dev_size=20", "data.test_size=20", "data.batch_size=32"]
OF_A_DECODER = ("angle_llama", "bellm", "cse_sfp", "pcc")
EXPERIMENTS = (
    *OF_A_DECODER,
    "ct",
    "esimcse",
    "infocse",
    "minilm_distill_nli",
    "promcse",
    "promptbert",
    "rankcse",
    "regression_head",
)
"""One of each kind: mixed losses, bidirectional layers, stages, a second encoder, a queue, and so on."""

MISTRAL = ["model=tiny_mistral", "prompt=eol", *SMALL]


def card(memory: int) -> Device:
    return Device("test", memory, 1e12, 1e12, 1e11, "32-true", gpu=False)


def test_the_largest_micro_batch_fits_and_a_larger_one_does_not(config: Config) -> None:
    chunks = "trainer.chunk_tokens=100000"  # a smaller chunk than the micro batch would bound the memory
    cfg = check_config(config(*MISTRAL, "trainer.micro_batch_size=auto", chunks))
    everything = Tracer(cfg, card(2**40))
    usable = everything.bytes_at(9) + 1000
    plan = estimate(cfg, card(usable))
    assert (plan.micro_batch, plan.fits) == (9, True)
    assert everything.bytes_at(10) > usable
    roomy = estimate(cfg, card(2**40))
    assert roomy.micro_batch is None
    assert roomy.memory > plan.memory


def test_nothing_fits(config: Config) -> None:
    cfg = check_config(config(*MISTRAL, "trainer.micro_batch_size=auto"))
    plan = estimate(cfg, card(10_000))
    assert (plan.micro_batch, plan.fits) == (1, False)
    fixed = estimate(check_config(config(*MISTRAL)), card(10_000))
    assert (fixed.micro_batch, fixed.fits) == (None, False)
    assert any("trainer.micro_batch_size=auto" in note for note in fixed.notes)


def test_steps_tokens_and_kinds(config: Config) -> None:
    plan = estimate(config(*MISTRAL, "trainer.max_epochs=3"), card(2**40))
    assert plan.steps == 3 * 8
    assert plan.tokens > plan.steps * 64 * 40
    assert plan.seconds is not None and plan.seconds > 0
    assert plan.peak["optimiser"] == pytest.approx(2 * plan.peak["adapters"], rel=0.5)


@pytest.mark.parametrize("micro", [None, 2])
@pytest.mark.parametrize("checkpointing", ["true", "false"])
def test_layers_and_chunks_are_extrapolated_exactly(
    config: Config, monkeypatch: pytest.MonkeyPatch, micro: int | None, checkpointing: str
) -> None:
    monkeypatch.setattr(module, "MANY_CHUNKS", 3)
    short = ["data.batch_size=6", "trainer.chunk_tokens=400"]  # four chunks of three rows
    deep = ["model.layers=7", f"trainer.gradient_checkpointing={checkpointing}"]
    cfg = check_config(config(*MISTRAL, *short, *deep))
    tracer = Tracer(cfg, card(2**40))
    assert tracer.deep
    quick = tracer.bytes_at(micro)
    monkeypatch.setattr(module, "MANY_CHUNKS", 10**6)
    exact = Tracer(cfg, card(2**40))
    exact.deep = False
    assert quick == pytest.approx(exact.bytes_at(micro), rel=0.02)


def test_a_deep_model_has_the_arithmetic_of_all_layers(config: Config) -> None:
    cfg = check_config(config(*MISTRAL, "model.layers=9", "data.batch_size=2"))
    tracer = Tracer(cfg, card(2**40))
    assert tracer.deep
    quick, whole = tracer.trace(None)[0], tracer.full(None)[0]
    for part in ("forward", "encoder", "rest"):
        seconds = [tracer.device.seconds(getattr(trace, part)) for trace in (quick, whole)]
        assert seconds[0] == pytest.approx(seconds[1], rel=0.01)


def test_a_loss_that_was_traced_counts_as_if_it_ran(config: Config) -> None:
    tracer = Tracer(check_config(config(*MISTRAL)), card(2**40))
    ran, _ = tracer.full(2)
    assert ran.loss is not None and ran.loss.above["vectors"] > 0
    known, _ = tracer.full(2)
    assert (known.peak, known.rest, known.encoder) == (ran.peak, ran.rest, ran.encoder)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_kind_of_experiment_can_be_planned(experiment: str) -> None:
    overrides = [f"experiment={experiment}", "data_root=/nowhere", "data.batch_size=16"]
    if experiment in OF_A_DECODER:
        overrides.append("model=tiny_llama")
    if experiment == "minilm_distill_nli":
        overrides.append("auxiliary.sources=[sentence-transformers/all-MiniLM-L6-v2]")
    plan = estimate(compose_train(overrides), card(2**40))
    assert plan.steps > 0
    assert plan.seconds is not None


@pytest.mark.parametrize(
    ("overrides", "count"),
    [
        (["data=nli_triplets", "loss=infonce"], 275_601),
        (["data=nli_pairs", "loss=smooth_k2", "data.limit=1000"], 1_000),
    ],
)
def test_without_the_data_the_published_counts_are_taken(
    config: Config, overrides: list[str], count: int
) -> None:
    cfg = config("model=tiny_bert", *overrides, "data_root=/nowhere", "trainer.max_epochs=1")
    plan = estimate(cfg, card(2**40))
    assert plan.steps == -(-count // cfg.data.batch_size)
    assert any(f"{count:,}" in note for note in plan.notes)


def test_several_gpus_share_the_work(config: Config) -> None:
    gpu = Device("test", 2**40, 1e12, 1e12, 1e12, "32-true", gpu=True)
    overrides = [*MISTRAL, "data.train_size=2048", "data.batch_size=256"]
    one, four = (estimate(config(*overrides, f"trainer.devices={count}"), gpu) for count in (1, 4))
    assert one.steps == four.steps
    assert one.seconds is not None
    assert four.seconds is not None
    assert 0.2 < four.seconds / one.seconds < 0.6
    limited = estimate(config(*overrides, "trainer.devices=4", "trainer.micro_batch_size=32"), gpu)
    assert limited.micro_batch == 8 and limited.memory < four.memory
