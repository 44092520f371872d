from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2Model, T5Config, T5EncoderModel

from sts_lightning.core.errors import ConfigError
from sts_lightning.losses.regression import L1Loss
from sts_lightning.testing.tiny_bert import tiny_bert
from sts_lightning.training.optim import make_optimizer, make_schedule

BETAS = (0.9, 0.999)


def test_biases_and_norms_do_not_decay() -> None:
    encoder = tiny_bert()
    optimizer = make_optimizer(encoder, 1e-3, 0.1, BETAS, 1e-8, fused=True)
    decayed, others = ({id(p) for p in group["params"]} for group in optimizer.param_groups)
    assert (optimizer.param_groups[0]["weight_decay"], optimizer.param_groups[1]["weight_decay"]) == (
        0.1,
        0.0,
    )
    for name, parameter in encoder.named_parameters():
        flat = "bias" in name or "LayerNorm" in name
        assert (id(parameter) in others) == flat, name
        assert (id(parameter) in decayed) != flat, name


def test_fused_step_equals_the_plain_one() -> None:
    results = []
    for fused in (True, False):
        encoder = tiny_bert(dropout=0.0)
        # A larger eps, since Adam blows the rounding of gradients near zero up to whole steps.
        optimizer = make_optimizer(encoder, 1e-3, 0.1, BETAS, 1e-3, fused=fused)
        for _ in range(3):
            encoder.zero_grad()
            encoder(encoder.tokenizer.rows(["a b c", "d"], 100)).square().sum().backward()
            optimizer.step()
        results.append(torch.cat([p.flatten() for p in encoder.parameters()]))
    torch.testing.assert_close(*results, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("warmup", "steps"), [(0.25, 2), (3, 3), (0, 0)])
def test_warmup_is_a_share_or_steps(warmup: float, steps: int) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = make_schedule(optimizer, "linear", warmup, total_steps=8)
    rates = []
    for _ in range(8):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates.index(1.0) == steps
    assert optimizer.param_groups[0]["lr"] == 0.0


def test_a_stretched_schedule_ends_early() -> None:
    """20 % of twice the steps are 40 % of the run, which ends at 62.5 % of the peak."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = make_schedule(optimizer, "linear", 0.2, total_steps=100, stretch=2)
    rates = []
    for _ in range(100):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates.index(1.0) == 40
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.625)
    assert sum(rates) / 100 == pytest.approx(0.69, abs=0.01)


def test_a_warmup_that_is_too_long() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    with pytest.raises(ConfigError, match="longer than the run"):
        make_schedule(optimizer, "linear", 100, total_steps=8)


class Pair(nn.Module):
    """An encoder with three layers and a head, named as in training."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = tiny_bert(layers=3, projection="always")
        self.loss = L1Loss(32, 5.0)


def rates(**settings: Any) -> dict[str, float]:
    module = Pair()
    optimizer = make_optimizer(module, 1.0, 0.01, BETAS, 1e-8, fused=True, **settings)
    by_id = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    assert len(by_id) == len(list(module.parameters()))
    return {name: by_id[id(parameter)] for name, parameter in module.named_parameters()}


@pytest.mark.parametrize("decay_embeddings", [True, False])
def test_rates_fall_from_layer_to_layer(decay_embeddings: bool) -> None:
    for name, rate in rates(layer_decay=0.5, decay_embeddings=decay_embeddings).items():
        if ".layer." in name:
            expected = {"0": 0.25, "1": 0.5, "2": 1.0}[name.split(".layer.")[1][0]]
        else:
            expected = 0.125 if ".embeddings." in name and decay_embeddings else 1.0
        assert rate == expected, name


def plain(module: nn.Module, **settings: Any) -> dict[str, tuple[float, float]]:
    """Rate and weight decay of each parameter."""
    optimizer = make_optimizer(module, 1.0, 0.01, BETAS, 1e-8, fused=True, **settings)
    by_id = {id(p): (g["lr"], g["weight_decay"]) for g in optimizer.param_groups for p in g["params"]}
    return {name: by_id[id(parameter)] for name, parameter in module.named_parameters()}


def test_layers_and_embeddings_of_other_families() -> None:
    module = nn.Module()
    module.encoder = T5EncoderModel(
        T5Config(vocab_size=9, d_model=8, d_kv=4, d_ff=8, num_layers=3, num_heads=2)
    )
    for name, (rate, _) in plain(module, layer_decay=0.5).items():
        block = name.partition(".block.")[2][:1]
        top = name == "encoder.encoder.final_layer_norm.weight"
        assert rate == ({"0": 0.25, "1": 0.5, "2": 1.0}[block] if block else 1.0 if top else 0.125), name
    module.encoder = GPT2Model(GPT2Config(vocab_size=9, n_positions=8, n_embd=8, n_layer=2, n_head=2))
    found = plain(module, layer_decay=0.5)
    assert {found[f"encoder.{table}.weight"][0] for table in ("wte", "wpe")} == {0.25}
    assert found["encoder.h.0.mlp.c_fc.weight"] == (0.5, 0.01)
    assert {decay for name, (_, decay) in found.items() if ".ln_" in name} == {0.0}


def test_a_network_above_the_encoder_has_none_of_its_layers() -> None:
    module = Pair()
    module.auxiliary = nn.Module()
    module.auxiliary.above = "upper"
    module.auxiliary.upper = tiny_bert(layers=2).backbone
    found = plain(module, layer_decay=0.5)
    assert {rate for name, (rate, _) in found.items() if name.startswith("auxiliary.upper.encoder")} == {1.0}
    assert found["encoder.backbone.encoder.layer.0.output.dense.weight"][0] == 0.25


def test_the_head_may_have_a_rate_of_its_own() -> None:
    for name, rate in rates(head_lr=7.0).items():
        assert rate == (7.0 if name.startswith("loss.") else 1.0), name
