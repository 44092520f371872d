"""The tests of model types, on those that each have something of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from peft import LoraConfig, PeftConfig

from sts_lightning.core.choices import Precision
from tests.support.families import FURTHER
from tests.unit.models import test_adapter_folder as adapter_folder
from tests.unit.models import test_attention_kernel as attention_kernel
from tests.unit.models import test_batch_probe as batch_probe
from tests.unit.models import test_families as families
from tests.unit.models.test_adapter_folder import ALL, EMBEDDINGS

EACH = pytest.mark.parametrize("model_type", FURTHER)


@EACH
def test_attention_kernels(model_type: str, tmp_path: Path) -> None:
    attention_kernel.test_implementations_agree_or_are_rejected(model_type, tmp_path)


@EACH
def test_vectors(model_type: str) -> None:
    batch_probe.test_a_family_gives_the_vectors_of_a_plain_loop(model_type)


@EACH
def test_gradients(model_type: str) -> None:
    families.test_gradients_are_those_of_a_plain_loop(model_type)


@EACH
@pytest.mark.parametrize("precision", families.HALF)
def test_half_precision(model_type: str, precision: Precision) -> None:
    families.test_a_vector_does_not_depend_on_its_batch_in_half_precision(model_type, precision)


@EACH
def test_lora(model_type: str, tmp_path: Path) -> None:
    families.test_a_lora_on_all_linear_layers_is_merged(model_type, tmp_path)


@pytest.mark.parametrize(
    ("model_type", "settings"),
    [
        ("t5", LoraConfig(**ALL, r=4)),
        ("bart", LoraConfig(**ALL, r=4)),
        ("mistral", LoraConfig(**ALL, r=4, use_dora=True)),
        ("t5", LoraConfig(**EMBEDDINGS, r=4)),
    ],
)
def test_adapter_folders(model_type: str, settings: PeftConfig, tmp_path: Path) -> None:
    adapter_folder.test_a_folder_gives_the_vectors_it_was_exported_with(
        model_type, settings, "none", tmp_path
    )
