"""LoRA dropout that draws its masks again: bit for bit peft's step, with less kept in memory."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig
from profiled import kept_bytes
from torch import Tensor, nn

from sts_lightning.core.choices import Quantization
from sts_lightning.losses.infonce import InfoNCELoss
from sts_lightning.models.compute.lora import DroppedLinear, save_inputs_once
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading import adapters as adapter_module
from sts_lightning.testing.tiny_decoders import tiny_mistral, tiny_opt
from tests.nightly.gpu.steps import decoder, step
from tests.support.families import tiny
from tests.support.sentences import TEXTS

Make = Callable[..., SentenceEncoder]


@pytest.fixture
def pefts_own(monkeypatch: pytest.MonkeyPatch) -> Make:
    """Builds a decoder with peft's own layers."""

    def make(device: torch.device, dropout: float = 0.1, **settings: Any) -> SentenceEncoder:
        with monkeypatch.context() as patch:
            patch.setattr(adapter_module, "save_inputs_once", lambda model: None)
            return decoder(device, dropout, **settings)

    return make


def replaced(encoder: nn.Module) -> int:
    return sum(isinstance(module, DroppedLinear) for module in encoder.modules())


@pytest.mark.parametrize(
    ("rate", "mixed", "recompute", "dtype", "quantization"),
    [
        (0.3, False, False, "float32", "none"),
        (0.3, True, True, "bfloat16", "4bit"),
        (0.3, True, False, "float32", "8bit"),
        (0.0, True, False, "float32", "none"),
        (0.0, True, True, "bfloat16", "4bit"),
    ],
)
def test_loss_gradient_and_random_state_are_those_of_peft(
    rate: float,
    mixed: bool,
    recompute: bool,
    dtype: str,
    quantization: Quantization,
    device: torch.device,
    pefts_own: Make,
) -> None:
    found = []
    for make in (pefts_own, decoder):
        encoder = make(device, rate, quantization=quantization, dtype=dtype)
        assert replaced(encoder) == (14 if make is decoder else 0)
        if recompute:
            encoder.checkpoint_layers()
        result = step(encoder, InfoNCELoss(), rows_at_a_time=10, recompute=recompute, mixed=mixed)
        found.append((*result, torch.rand(1, device=device)))
    (value, gradient, drawn), (own_value, own_gradient, own_drawn) = found
    assert own_value == value
    assert torch.equal(own_gradient, gradient)
    assert own_drawn == drawn


@pytest.mark.parametrize(
    ("rate", "shape", "dtype"),
    [(0.5, (7, 33), torch.float32), (0.05, (2, 5, 33), torch.bfloat16), (0.0, (2, 5, 33), torch.bfloat16)],
)
def test_one_layer_against_the_two_modules(
    dtype: torch.dtype, shape: tuple[int, ...], rate: float, device: torch.device
) -> None:
    torch.manual_seed(0)
    factor = nn.Linear(33, 4, bias=False).to(device)
    x = torch.randn(shape).to(device, dtype)
    upstream = torch.randn(*shape[:-1], 4).to(device)
    results = []
    for layer in (nn.Sequential(nn.Dropout(rate), factor), DroppedLinear(factor, rate, False)):
        own = x.clone().requires_grad_()
        factor.weight.grad = None
        torch.manual_seed(3)
        out = layer(own.float() if isinstance(layer, nn.Sequential) else own)
        out.backward(upstream)
        assert own.grad is not None
        assert factor.weight.grad is not None
        results.append((out.detach(), own.grad, factor.weight.grad.clone()))
    for theirs, ours in zip(*results, strict=True):
        assert torch.equal(theirs, ours)


def kept(encoder: SentenceEncoder, mixed: bool) -> int:
    """Count what a forward pass of four rows keeps."""

    def forward() -> Tensor:
        with torch.autocast(encoder.device.type, torch.bfloat16, enabled=mixed):
            return encoder.embed_chunk(encoder.longest_rows(4))

    return kept_bytes(encoder, forward)


@pytest.mark.parametrize("rate", [0.0, 0.1])
@pytest.mark.parametrize("quantization", ["none", "4bit"])
def test_less_is_kept(rate: float, quantization: Quantization, device: torch.device, pefts_own: Make) -> None:
    settings: dict[str, Any] = {"quantization": quantization, "dtype": "bfloat16"}
    theirs, ours = (kept(make(device, rate, **settings), mixed=True) for make in (pefts_own, decoder))
    assert ours < 0.8 * theirs if rate else ours < 0.95 * theirs
    without = kept(decoder(device, 0.0, **settings), mixed=True)
    assert ours <= 1.02 * without  # dropout costs nothing but the states of the generator


def test_vectors_are_the_same_in_evaluation(device: torch.device, pefts_own: Make) -> None:
    np.testing.assert_array_equal(decoder(device).encode(TEXTS), pefts_own(device).encode(TEXTS))


def test_names_merging_and_copies_are_those_of_peft(pefts_own: Make) -> None:
    cpu = torch.device("cpu")
    ours, theirs = decoder(cpu), pefts_own(cpu)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    expected = theirs.encode(TEXTS)
    twin = copy.deepcopy(ours)
    twin.load_state_dict(theirs.state_dict())
    np.testing.assert_array_equal(twin.encode(TEXTS), expected)
    twin.backbone = twin.backbone.merge_and_unload()  # type: ignore[operator]
    np.testing.assert_allclose(twin.encode(TEXTS), expected, atol=1e-5)


def test_dora_is_left_alone() -> None:
    adapter = LoraConfig(
        task_type="FEATURE_EXTRACTION", r=2, lora_dropout=0.1, target_modules="all-linear", use_dora=True
    )
    assert replaced(tiny_mistral(adapter=adapter)) == 0


def test_gpt2s_transposed_layers_and_opts_biases_are_replaced() -> None:
    adapter = LoraConfig(
        task_type="FEATURE_EXTRACTION", r=2, lora_dropout=0.1, target_modules=["c_attn"], fan_in_fan_out=True
    )
    assert replaced(adapter_module.add_adapter(tiny("gpt2"), adapter)) == 2
    adapter = LoraConfig(task_type="FEATURE_EXTRACTION", r=2, lora_dropout=0.1, target_modules="all-linear")
    assert replaced(tiny_opt(adapter=adapter)) == 12
    again = tiny_opt(adapter=adapter)
    save_inputs_once(again)  # a second time changes nothing
    assert replaced(again) == 12


def test_a_second_derivative_is_an_error_and_not_a_wrong_number() -> None:
    layer = DroppedLinear(nn.Linear(4, 2, bias=False), 0.5, False)
    x = torch.randn(3, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()
