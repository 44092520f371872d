"""LoRA's term by one product, whose dropout is drawn again: peft's step with less kept in memory."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig
from peft.tuners.lora.layer import Linear
from profiled import kept_bytes
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from sts_lightning.core.choices import Quantization
from sts_lightning.losses.contrastive import InfoNCELoss
from sts_lightning.models.compute import lora
from sts_lightning.models.compute.lora import FusedLayer, fuse
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading import adapters as adapter_module
from sts_lightning.testing.tiny_decoders import tiny_opt
from tests.nightly.gpu.steps import decoder, difference, step
from tests.support.families import tiny
from tests.support.sentences import TEXTS
from tests.support.training_steps import longest_rows

Make = Callable[..., SentenceEncoder]


@pytest.fixture(autouse=True)
def same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peft's dropout drops what ours does on a CPU; autograd has its own backward pass of it."""
    original = nn.Dropout.forward

    def forward(self: nn.Dropout, x: Tensor) -> Tensor:
        replays = x.device.type == "cpu" and self.training and self.p > 0
        return lora._drop(x, self.p)[0] if replays else original(self, x)

    monkeypatch.setattr(nn.Dropout, "forward", forward)


@pytest.fixture
def pefts_own(monkeypatch: pytest.MonkeyPatch) -> Make:
    """Builds a decoder with peft's own layers."""

    def make(device: torch.device, dropout: float = 0.1, **settings: Any) -> SentenceEncoder:
        with monkeypatch.context() as patch:
            patch.setattr(adapter_module, "fuse", lambda model: None)
            return decoder(device, dropout, **settings)

    return make


def replaced(encoder: nn.Module) -> int:
    return sum(isinstance(module, FusedLayer) for module in encoder.modules())


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
    half = mixed or dtype == "bfloat16"
    assert own_value == pytest.approx(value, rel=1e-2 if half else 1e-6)
    assert difference(own_gradient, gradient) < (4e-2 if half else 1e-6)
    assert own_drawn == drawn


def layer_of_peft(bias: bool, dtype: torch.dtype = torch.float32, **settings: Any) -> Any:
    """A layer of 33 inputs and 12 outputs, both factors random."""
    torch.manual_seed(0)
    base = nn.Linear(33, 12, bias=bias, dtype=dtype).requires_grad_(False)
    config = LoraConfig(r=4, lora_alpha=6, **settings)
    layer: Any = Linear(base, "default", config, r=4, lora_alpha=6, lora_dropout=config.lora_dropout)
    nn.init.normal_(layer.lora_B["default"].weight)
    return layer.train()


def fused(layer: Any) -> Any:
    own = copy.deepcopy(layer)
    fuse(own)
    assert isinstance(own, FusedLayer)
    return own


def results(layer: Any, x: Tensor, upstream: Tensor) -> list[Tensor]:
    """Output and gradients of a layer that is used twice."""
    x = x.clone().requires_grad_()
    torch.manual_seed(3)
    out = layer(x)
    (layer(2 * x).sin() * upstream + out * upstream).sum().backward()
    factors = (layer.lora_A["default"].weight, layer.lora_B["default"].weight)
    found = [out.detach(), x.grad, *(factor.grad for factor in factors), torch.rand(1, device=x.device)]
    assert all(tensor is not None for tensor in found)
    return found


@pytest.mark.parametrize(
    ("rate", "shape", "bias"),
    [(0.5, (7, 33), True), (0.05, (2, 5, 33), True), (0.3, (2, 5, 33), False), (0.0, (2, 5, 33), False)],
)
def test_one_layer_against_that_of_peft(
    rate: float, shape: tuple[int, ...], bias: bool, device: torch.device
) -> None:
    layer = layer_of_peft(bias, lora_dropout=rate).to(device)
    x, upstream = torch.randn(shape).to(device), torch.randn(*shape[:-1], 12).to(device)
    for theirs, ours in zip(results(layer, x, upstream), results(fused(layer), x, upstream), strict=True):
        assert difference(ours, theirs) < 1e-6


@pytest.mark.parametrize("mixed", [False, True])
def test_one_layer_in_half_precision(mixed: bool, device: torch.device) -> None:
    layer = layer_of_peft(False, torch.bfloat16, lora_dropout=0.3).to(device)
    x = torch.randn(2, 5, 33).to(device, torch.bfloat16)
    upstream = torch.randn(2, 5, 12).to(device, torch.bfloat16)
    with torch.autocast(device.type, torch.bfloat16, enabled=mixed):
        pairs = zip(results(layer, x, upstream), results(fused(layer), x, upstream), strict=True)
    for theirs, ours in pairs:
        assert ours.dtype == theirs.dtype
        assert difference(ours.float(), theirs.float()) < 0.03


def test_a_base_output_in_float32_under_autocast(device: torch.device) -> None:
    layer = layer_of_peft(False, lora_dropout=0.3).to(device)
    layer.base_layer.forward = lambda x: F.linear(x.double(), layer.base_layer.weight.double()).float()
    x, upstream = torch.randn(2, 5, 33).to(device), torch.randn(2, 5, 12).to(device)
    with torch.autocast(device.type, torch.bfloat16):
        pairs = zip(results(layer, x, upstream), results(fused(layer), x, upstream), strict=True)
    for theirs, ours in pairs:
        assert ours.dtype == theirs.dtype
        assert difference(ours, theirs) < 0.03


def test_several_adapters_and_what_peft_does_itself() -> None:
    x = torch.randn(2, 5, 33)
    layer = layer_of_peft(True)
    layer.update_layer("second", 2, lora_alpha=2, config=LoraConfig(r=2, init_lora_weights=False))
    layer.set_adapter(["default", "second"])
    own = fused(layer)
    torch.testing.assert_close(own(x), layer(x))
    own.enable_adapters(False)
    torch.testing.assert_close(own(x), layer.base_layer(x), rtol=0, atol=0)
    own.enable_adapters(True)
    own.merge()
    torch.testing.assert_close(own(x), layer(x), rtol=1e-5, atol=1e-5)
    for unusual in ("use_dora", "lora_bias"):
        settings: dict[str, Any] = {unusual: True}
        layer = layer_of_peft(True, **settings)
        nn.init.normal_(layer.lora_B["default"].weight)
        torch.testing.assert_close(fused(layer)(x), layer(x), rtol=0, atol=0)


class Products(TorchDispatchMode):
    """Records the dtypes of matrix products."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtypes: list[torch.dtype] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if "mm" in func.name():
            self.dtypes.append(out.dtype)
        return out


def test_half_precision_is_kept_in_evaluation(device: torch.device) -> None:
    """Products of the term in float32, which peft takes, are slow on a GPU."""
    layer = layer_of_peft(False, torch.bfloat16, lora_dropout=0.3).to(device).eval()
    x = torch.randn(2, 5, 33).to(device, torch.bfloat16)
    own = fused(layer)
    with torch.no_grad(), Products() as seen:
        ours = own(x)
    assert seen.dtypes == [torch.bfloat16] * 3  # of the base, of A, and of B
    with torch.no_grad():
        assert difference(ours.float(), layer(x).float()) < 0.01


def kept(encoder: SentenceEncoder, mixed: bool) -> int:
    """Count what a forward pass of four short rows keeps, of which attention's scores are a small part."""
    rows = {name: ids[:, :16] for name, ids in longest_rows(encoder, 4).items()}

    def forward() -> Tensor:
        with torch.autocast(encoder.device.type, torch.bfloat16, enabled=mixed):
            return encoder.embed_chunk(rows)

    return kept_bytes(encoder, forward)


@pytest.mark.parametrize("rate", [0.0, 0.1])
@pytest.mark.parametrize("quantization", ["none", "4bit"])
def test_less_is_kept(rate: float, quantization: Quantization, device: torch.device, pefts_own: Make) -> None:
    settings: dict[str, Any] = {"quantization": quantization, "dtype": "bfloat16"}
    theirs, ours = (kept(make(device, rate, **settings), mixed=True) for make in (pefts_own, decoder))
    # Without dropout peft's 4-bit layer asks for the autocast of CUDA, and copies its input without it.
    limit = 0.8 if rate else 1.0 if quantization == "4bit" and device.type == "cuda" else 0.95
    assert ours < limit * theirs
    without = kept(decoder(device, 0.0, **settings), mixed=True)
    assert without <= ours <= 1.02 * without  # dropout costs nothing but the states of the generator


def test_vectors_are_the_same_in_evaluation(device: torch.device, pefts_own: Make) -> None:
    np.testing.assert_allclose(decoder(device).encode(TEXTS), pefts_own(device).encode(TEXTS), atol=2e-6)


def test_names_merging_and_copies_are_those_of_peft(pefts_own: Make) -> None:
    cpu = torch.device("cpu")
    ours, theirs = decoder(cpu), pefts_own(cpu)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    expected = theirs.encode(TEXTS)
    twin = pickle.loads(pickle.dumps(copy.deepcopy(ours)))
    twin.load_state_dict(theirs.state_dict())
    np.testing.assert_allclose(twin.encode(TEXTS), expected, atol=2e-6)
    twin.backbone = twin.backbone.merge_and_unload()
    np.testing.assert_allclose(twin.encode(TEXTS), expected, atol=1e-5)


def test_gpt2s_transposed_layers_and_opts_biases_are_replaced() -> None:
    adapter = LoraConfig(
        task_type="FEATURE_EXTRACTION", r=2, lora_dropout=0.1, target_modules=["c_attn"], fan_in_fan_out=True
    )
    assert replaced(adapter_module.add_adapter(tiny("gpt2"), adapter)) == 2
    adapter = LoraConfig(task_type="FEATURE_EXTRACTION", r=2, lora_dropout=0.1, target_modules="all-linear")
    assert replaced(tiny_opt(adapter=adapter)) == 12
    again = tiny_opt(adapter=adapter)
    fuse(again)  # a second time changes nothing
    assert replaced(again) == 12


def test_a_second_derivative_is_an_error_and_not_a_wrong_number() -> None:
    layer = fused(layer_of_peft(False))
    x = torch.randn(3, 33, requires_grad=True)
    (gradient,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()
