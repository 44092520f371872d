"""Counts of what a run reads, against counts by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from omegaconf import DictConfig

from sts_lightning.config.constraints import check_config
from sts_lightning.planning import workload
from sts_lightning.planning.estimate import Tracer
from tests.planning.test_estimate import SMALL, card

pytestmark = pytest.mark.slow  # each builds a model


@pytest.mark.parametrize("final", [True, False])
def test_a_report_embeds_each_sentence_once_and_a_validation_all(
    config: Callable[..., DictConfig], monkeypatch: pytest.MonkeyPatch, final: bool
) -> None:
    untuned = "evaluation.untuned=true"
    cfg = check_config(config(*SMALL, "model=tiny_bert", untuned, f"evaluation.final={str(final).lower()}"))
    tracer = Tracer(cfg, card(2**40))
    sheet = tracer.blueprint(None, None)
    monkeypatch.setattr(workload, "SAMPLE", 10**6)
    work = workload.measure(cfg, sheet.module, sheet.data, tracer.prepare)

    dev = [*sheet.data.dev["sentence1"], *sheet.data.dev["sentence2"]]
    distinct = set(dev)
    for task in sheet.data.tests if final else []:
        for table in task.subsets.values():
            distinct |= {*table["sentence1"], *table["sentence2"]}
    length = {text: len(sheet.module.encoder.tokenizer([text])[0]) for text in distinct}
    assert work.report_tokens == 2 * sum(length.values())  # before training and after it
    validations = work.dev_tokens / sum(length[text] for text in dev)
    assert validations == round(validations) >= 2
