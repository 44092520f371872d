"""Linear layers in 8-bit integers, against numpy and against float32."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from sts_lightning.models.int8 import multiplies_int8
from sts_lightning.models.int8_linear import DynamicInt8Linear, Int8Linear, StaticInt8Linear

pytestmark = pytest.mark.skipif(
    not multiplies_int8(), reason="needs a CPU with AVX512-VNNI or AMX, whose 8-bit products are exact"
)

KINDS = (StaticInt8Linear, DynamicInt8Linear)


def layer(rows: int = 7, inputs: int = 24, outputs: int = 10) -> tuple[nn.Linear, torch.Tensor]:
    torch.manual_seed(0)
    values = torch.randn(rows, inputs) + 0.5
    values[:, 3] *= 40
    return nn.Linear(inputs, outputs), values


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False])
def test_against_numpy(kind: type[Int8Linear], bias: bool) -> None:
    linear, values = layer()
    if not bias:
        linear.bias = None
    converted = kind(linear, values, 0.7)
    found = converted(values)
    weight = linear.weight.detach().double().numpy()
    largest = np.maximum(values.abs().amax(0).numpy(), 0.03 * values.abs().amax(0).mean().item())
    s = largest**0.7 / abs(weight).max(0) ** 0.3
    inputs = values.double().numpy() / s
    if kind is StaticInt8Linear:
        steps = np.full(7, (inputs.max() - inputs.min()) / 255)
        assert converted.zero_point == round(-inputs.min() / steps[0])
    else:
        z = converted.zero_point

        def step(zero: int) -> np.ndarray:
            return np.maximum(inputs.max(1) / (255 - zero), -inputs.min(1) / zero)

        steps = step(z)
        assert steps.mean() == pytest.approx(min(step(zero).mean() for zero in range(1, 255)), rel=1e-6)
    z = converted.zero_point
    for row, (x, d) in enumerate(zip(inputs, steps, strict=True)):
        q = np.clip(np.floor(x / d + z + 0.5), 0, 255)
        for column, w in enumerate(weight * s):
            scale = abs(w).max() / 127
            exact = sum((q - z) * d * np.round(w / scale) * scale)
            exact += linear.bias[column].item() if bias else 0
            assert found[row, column].item() == pytest.approx(exact, abs=2e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_is_small_where_one_column_is_large(kind: type[Int8Linear]) -> None:
    linear, values = layer(rows=200)
    exact = linear(values).detach()
    converted, plain = (kind(linear, values, alpha)(values) for alpha in (0.7, 0.0))
    assert (converted - exact).abs().mean() < 0.01 * exact.abs().mean()
    assert (converted - exact).abs().mean() < 0.5 * (plain - exact).abs().mean()


def test_a_column_that_calibration_never_saw_does_no_harm() -> None:
    linear, values = layer(rows=200)
    seen = values.clone()
    seen[:, 5] = 0
    exact = linear(values).detach()
    assert (DynamicInt8Linear(linear, seen, 0.5)(values) - exact).abs().mean() < 0.01 * exact.abs().mean()
    assert (StaticInt8Linear(linear, seen, 0.5)(values) - exact).abs().mean() < 0.02 * exact.abs().mean()


def test_inputs_outside_the_range_are_clipped_or_have_a_larger_step() -> None:
    linear, values = layer(rows=50)
    largest = values.max(0).values + 1e-3
    static = StaticInt8Linear(linear, torch.stack([-largest, largest]), 0.5)
    torch.testing.assert_close(static(1e6 * largest), static(1e9 * largest))
    dynamic, exact = DynamicInt8Linear(linear, values, 0.5), linear(100 * values).detach()
    assert (dynamic(100 * values) - exact).abs().mean() < 0.02 * exact.abs().mean()


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_does_not_depend_on_the_others(kind: type[Int8Linear]) -> None:
    linear, values = layer(rows=40)
    converted = kind(linear, values, 0.5)
    together = converted(values.view(5, 8, -1)).view(40, -1)
    # One row has another kernel, whose scaling of the sums rounds otherwise.
    torch.testing.assert_close(together, torch.cat([converted(row[None]) for row in values]))
    across = values.view(5, 8, -1).transpose(0, 1)
    assert torch.equal(converted(across), converted(across.contiguous()))


def test_a_token_that_is_not_a_number_stays_so() -> None:
    linear, values = layer()
    assert torch.isnan(DynamicInt8Linear(linear, values, 0.5)(torch.full((1, 24), torch.nan))).all()


@pytest.mark.parametrize("kind", KINDS)
def test_copies(kind: type[Int8Linear]) -> None:
    linear, values = layer()
    converted = kind(linear, values, 0.5)
    for copied in (copy.deepcopy(converted), pickle.loads(pickle.dumps(converted))):
        assert torch.equal(copied(values), converted(values))
    assert converted.state_dict()["weight"].dtype == torch.int8  # by which encoders can be told apart


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_of_zeros_give_the_bias(kind: type[Int8Linear]) -> None:
    linear, values = layer()
    torch.testing.assert_close(kind(linear, values, 0.5)(torch.zeros(2, 24)), linear.bias.expand(2, -1))
    nothing = kind(linear, torch.zeros(3, 24), 0.5)
    torch.testing.assert_close(nothing(torch.zeros(2, 24)), linear.bias.expand(2, -1))
