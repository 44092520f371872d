"""Operations of a training step that PyTorch rejects on CUDA under deterministic=true, found on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import DynamicCache

from sts_lightning.core.errors import TrainingError
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.models.loading.backbone import NONDETERMINISTIC_ON_CUDA, is_causal
from sts_lightning.models.loading.opt import number_positions
from sts_lightning.models.pooling import Pooling
from sts_lightning.testing.tiny_bert import character_tokenizer
from sts_lightning.workflows import train
from tests.nightly.gpu.steps import step
from tests.support.emulated_gpu import emulated_gpu, is_rejected
from tests.support.families import KNOWN, NEEDED, tiny
from tests.support.loss_cases import make
from tests.support.sentences import TEXTS


class Recorder(TorchDispatchMode):
    """Notes the operations that would be rejected on CUDA."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rejected: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if is_rejected(func, args, kwargs or {}):
            self.rejected.add(func.name())
        return func(*args, **(kwargs or {}))


def test_the_recorder_finds_them() -> None:
    x = torch.rand(5, requires_grad=True)
    with Recorder() as recorder:
        (x.cumsum(0) * x.kthvalue(2).values).sum().backward()
        torch.arange(3).cumsum(0)
        torch.bincount(torch.arange(3))
        torch.bincount(torch.arange(3), torch.rand(3))
    assert recorder.rejected == {"aten::cumsum", "aten::kthvalue", "aten::bincount"}


@pytest.mark.parametrize("model_type", sorted(KNOWN))
def test_families_of_models_use_none_but_those_that_are_known_to(model_type: str) -> None:
    """In training and in evaluation on an emulated GPU; a regularly loaded OPT is told its positions."""
    backbone = tiny(model_type, **NEEDED.get(model_type, {}))
    if backbone.config.is_encoder_decoder:
        backbone = backbone.get_encoder()
    if model_type == "opt":
        number_positions(backbone)
    pooling: Pooling = "last_token" if is_causal(backbone) else "mean"
    encoder = SentenceEncoder(backbone, character_tokenizer(), pooling=pooling, max_length=64).train()
    with Recorder() as recorder, emulated_gpu():
        if model_type not in NONDETERMINISTIC_ON_CUDA:  # they count integers, which only CUDA's histc can
            encoder = encoder.to("cuda")
        step(encoder, make("pearson").float())
        encoder.encode(TEXTS)
    assert recorder.rejected == ({"aten::histc"} if model_type in NONDETERMINISTIC_ON_CUDA else set())


@pytest.mark.parametrize("cached", [False, True])
def test_the_positions_given_to_opt_are_those_that_it_sums_up(cached: bool) -> None:
    ids = torch.arange(4, 24).reshape(2, 10)
    plain, numbered = tiny("opt"), tiny("opt")
    number_positions(numbered)
    found = []
    for model in (plain, numbered):
        cache = DynamicCache()
        if cached:
            model(input_ids=ids[:, :4], past_key_values=cache, use_cache=True)
        with Recorder() as recorder:
            rest = {"past_key_values": cache} if cached else {}
            found.append(model(input_ids=ids[:, 4:], use_cache=False, **rest).last_hidden_state)
        assert bool(recorder.rejected) == (model is plain)
    assert torch.equal(*found)


def test_a_model_that_does_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "cumsum_cuda_kernel does not have a deterministic implementation, but you set 'torch.use_det..."

    def reject(*args: Any, **options: Any) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr(train, "_begin", lambda experiment: None)
    cfg = SimpleNamespace(
        evaluation=SimpleNamespace(untuned=False),
        trainer=SimpleNamespace(devices=1, num_nodes=1, strategy="ddp"),
        callbacks={},
    )
    data = SimpleNamespace(dev=[0, 1], data_set=SimpleNamespace(keep_general=False))
    measured = {"dev/spearman": 50.0}
    trainer = SimpleNamespace(
        validate=lambda *_, **__: None, fit=reject, global_step=0, callback_metrics=measured
    )
    module = SimpleNamespace(train=lambda: None)
    of_run = {"run": None, "cfg": cfg, "data": data, "callbacks": [], "made": None, "first": True}
    experiment: Any = SimpleNamespace(**of_run, module=module, trainer=trainer)
    with pytest.raises(TrainingError, match="cumsum_cuda_kernel") as caught:
        train.fit(experiment)
    assert caught.value.key == "trainer.deterministic"
    assert caught.value.hint is not None
    assert "warn" in caught.value.hint
