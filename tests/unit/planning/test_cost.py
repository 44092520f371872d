"""Plans against tensors of real models, arithmetic by hand, and each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from torch import nn

from sts_lightning.cli.main import main
from sts_lightning.config.check import check_config
from sts_lightning.core.errors import ConfigError
from sts_lightning.models.loading.meta import load_meta
from sts_lightning.models.loading.run import build_encoder
from sts_lightning.planning.cost import (
    CARDS,
    GIB,
    Shape,
    cost_of,
    duration,
    find_card,
    size,
    stored_bytes,
    this_card,
)
from sts_lightning.reproduce.run import print_plan as print_table
from sts_lightning.reproduce.table import Row, Table, TableSpec
from sts_lightning.sweep.grid import Grid
from sts_lightning.sweep.plan import print_plan as print_jobs
from tests.conftest import CONF, ROOT
from tests.support.training_steps import longest_rows

Config = Callable[..., DictConfig]

TINY = ["model=tiny_bert", "data=toy", "data.train_size=64", "data.dev_size=20", "data.test_size=20"]
QUANTISED = ["model=tiny_mistral", "prompt=eol", "model.quantization=4bit", "model.hidden_size=64"]


def tensors(module: nn.Module) -> int:
    """Bytes of all distinct tensors that a real module holds, scales of quantised weights included."""
    found = [*module.parameters(), *module.buffers()]
    for part in module.modules():
        state: Any = getattr(getattr(part, "weight", None), "quant_state", None)
        for level in (state, getattr(state, "state2", None)):
            found += [value for value in vars(level or SimpleNamespace()).values() if torch.is_tensor(value)]
    return sum({tensor.data_ptr(): tensor.numel() * tensor.itemsize for tensor in found}.values())


@pytest.mark.parametrize("model", [TINY[:1], QUANTISED, ["model=tiny_mistral", "prompt=eol"]])
def test_weights_gradients_and_optimiser_are_exact(config: Config, model: list[str]) -> None:
    cfg = check_config(config(*TINY[1:], *model, "loss=pearson", "data.batch_size=4", "trainer=cpu"))
    real = build_encoder(cfg.model, cfg.prompt).train()
    optimizer = torch.optim.AdamW([weight for weight in real.parameters() if weight.requires_grad])
    real.embed_chunk(longest_rows(real, 2)).sum().backward()
    optimizer.step()
    found = cost_of(cfg, find_card("24GB"))
    states = [value for state in optimizer.state.values() for value in state.values()]
    assert found.weights == tensors(real)
    gradients = [weight.grad for weight in real.parameters() if weight.grad is not None]
    assert found.gradients == sum(grad.numel() * grad.itemsize for grad in gradients)
    assert found.optimiser == sum(value.numel() * value.itemsize for value in states)
    two = check_config(config(*TINY[1:], *model, "loss=pearson", "data.batch_size=4", "trainer.devices=2"))
    assert cost_of(two, find_card("24GB")).gradients == 2 * found.gradients


def test_the_arithmetic_of_products(config: Config) -> None:
    small = [
        "model=tiny_mistral",
        "prompt=eol",
        "model.layers=3",
        "model.hidden_size=64",
        "model.adapter=null",
    ]
    cfg = check_config(config(*TINY[1:], *small))
    encoder = build_encoder(cfg.model, cfg.prompt, "cpu", load_meta)
    shape, settings = Shape(encoder), encoder.plain_backbone.config
    inner, heads = settings.intermediate_size, settings.num_attention_heads
    keys = 64 // heads * settings.num_key_value_heads
    matrices = 3 * (2 * 64 * 64 + 2 * 64 * keys + 3 * 64 * inner)
    products = (
        3 * 2 * (2 * 64) * 10
    )  # with keys and values of 10 tokens, 64 multiplications and additions each
    forward, step = shape.token_flops(10)
    assert forward == 2 * matrices + products
    assert step == 3 * forward
    assert shape.token_flops(10, again=1)[1] == 4 * forward
    layer = 8 * 64 + 4 * (2 * 64 + 2 * 64 + 2 * keys + 4 * inner)
    assert shape.token_bytes("32-true", True, 10) == 3 * layer
    encoder.requires_grad_(False)
    assert Shape(encoder).token_flops(10) == (forward, forward)


def test_activations_are_about_those_that_autograd_keeps(config: Config) -> None:
    cfg = check_config(config(*TINY))
    encoder = build_encoder(cfg.model, cfg.prompt).train()
    known = {weight.data_ptr() for weight in encoder.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = 0 if storage.data_ptr() in known else storage.nbytes()
        return tensor

    rows = longest_rows(encoder, 8)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        vectors = encoder.embed_chunk(rows)
    count, length = rows["input_ids"].numel(), rows["input_ids"].shape[1]
    assert vectors.requires_grad
    assert sum(kept.values()) == pytest.approx(
        count * Shape(encoder).token_bytes("32-true", False, length), rel=0.15
    )


def test_micro_batches_bound_the_activations_and_auto_fills_the_card(config: Config) -> None:
    base = [*TINY, "data.batch_size=32", "trainer.chunk_tokens=100000"]
    whole, four = (
        cost_of(config(*base, *more), find_card("24GB")) for more in ([], ["trainer.micro_batch_size=4"])
    )
    assert (whole.micro_batch, four.micro_batch) == (None, 4)
    assert whole.activations == 8 * four.activations
    state = four.memory - four.activations
    card = find_card(f"{(state + 1.2 * four.activations) / 0.95 / GIB + 0.75:.6f}GB")
    auto = cost_of(config(*base, "trainer.micro_batch_size=auto"), card)
    assert (auto.micro_batch, auto.measured, auto.fits, whole.memory > card.usable) == (4, True, True, True)
    assert cost_of(config(*base, "trainer.max_epochs=3"), card).steps == 3 * 2


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("mistralai/Mistral-7B-v0.1", 7_111),
        ("meta-llama/Llama-2-7b-hf", 6_607),
        ("facebook/opt-6.7b", 6_658),
        ("google-bert/bert-large-uncased", 334),
        ("FacebookAI/roberta-base", 124),
    ],
)
def test_published_shapes(
    config: Config, name: str, millions: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    cfg = config(*TINY, "model=bert_base", f"model.name={name}@main")
    encoder = build_encoder(cfg.model, cfg.prompt, "cpu", load_meta)
    assert sum(weight.numel() for weight in encoder.parameters()) / 1e6 == pytest.approx(millions, rel=0.01)
    assert encoder.device.type == "meta"
    assert stored_bytes(encoder) > 4e6 * millions * 0.99
    text = "A man, extraordinarily tall, is 12345 feet."
    pieces = ["A", "man", ",", "extraord", "inarily", "tall", ",", "is", "123", "45", "feet", "."]
    assert len(encoder.tokenizer([text])[0]) in (len(pieces) + 1, len(pieces) + 2)


def test_an_unknown_shape_is_named(config: Config) -> None:
    with pytest.raises(ConfigError) as caught:
        cost_of(config(*TINY, "model=bert_base", "model.name=nobody/nothing"))
    assert caught.value.key == "model.name"


def test_without_the_data_the_published_count_is_taken(config: Config) -> None:
    cfg = config(
        "model=tiny_bert", "data=nli_pairs", "loss=smooth_k2", "data_root=/nowhere", "data.limit=1000"
    )
    found = cost_of(cfg, CARDS["h100"])
    assert found.steps == 2 * -(-1000 // cfg.data.batch_size)
    assert any("1,000 examples" in note for note in found.notes)
    assert found.seconds is not None


def test_the_three_commands_print_the_same_line_for_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    run = [*TINY, "precision=32-true", "data.batch_size=8", "trainer.micro_batch_size=auto"]

    def printed() -> list[str]:
        return [text.strip() for text in capsys.readouterr().out.splitlines() if "activations about" in text]

    main(["plan", *run, "--card", "rtx4090"])
    (expected,) = printed()
    assert expected.endswith(" s")

    def job(overrides: list[str], _: int) -> DictConfig:
        return compose("train", [*overrides, f"hydra.sweep.dir={tmp_path}"], return_hydra_config=True)

    with initialize_config_dir(str(CONF), version_base="1.3"):
        grid = Grid(job)
        for seed in (1, 2):
            grid.add(seed, [*run, f"seed={seed}"])
        print_jobs(grid.composed_jobs(), "rtx4090")
    assert printed() == [expected] * 2
    table = TableSpec("Toy", {"plain": Row(run)})
    print_table(Table("toy", table, tmp_path), None, "rtx4090")
    assert printed() == [expected]


def test_a_card_by_name_or_by_memory() -> None:
    assert find_card("RTX4090") is CARDS["rtx4090"]
    assert find_card("24GB").memory == 24 * GIB
    assert find_card("24GB").half == 0  # and so no time
    assert not find_card("cpu").gpu
    with pytest.raises(ConfigError) as caught:
        find_card("rtx")
    assert (caught.value.key, "h100" in str(caught.value.hint)) == ("card", True)


def test_this_card_has_the_memory_that_others_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(name="NVIDIA A10", total_memory=23 * GIB, major=7)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (int(15.5 * GIB), 23 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 2 * GIB)
    found = this_card()  # 23 - 15.5 - 2 - 0.75 = 4.75 GiB of another process
    assert (found.name, found.memory, found.precision) == ("NVIDIA A10", int(18.25 * GIB), "32-true")


def test_units() -> None:
    assert (size(3 * 2**30), size(2**20)) == ("3.00 GiB", "1.0 MiB")
    assert (duration(119), duration(600), duration(9000)) == ("119 s", "10 minutes", "2.5 hours")
