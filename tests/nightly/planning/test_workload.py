"""Counts of what a run reads, against counts by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from omegaconf import DictConfig

from sts_lightning.config.check import check_config
from sts_lightning.planning.estimate import Tracer, draw, measure
from tests.nightly.planning.test_estimate import SMALL, card


@pytest.mark.parametrize("final", [True, False])
def test_a_report_embeds_each_sentence_once_and_a_validation_all(
    config: Callable[..., DictConfig], final: bool
) -> None:
    untuned = "evaluation.untuned=true"
    cfg = check_config(config(*SMALL, "model=tiny_bert", untuned, f"evaluation.final={str(final).lower()}"))
    tracer = Tracer(cfg, card(2**40))
    sheet = draw(cfg, tracer.precision, None)
    work = measure(cfg, sheet.module, sheet.data, tracer.prepare)

    dev = [*sheet.data.dev["sentence1"], *sheet.data.dev["sentence2"]]
    distinct = set(dev)
    for task in sheet.data.tests if final else []:
        for table in task.subsets.values():
            distinct |= {*table["sentence1"], *table["sentence2"]}
    length = work.tokens / work.steps / (sheet.data.batch_size * sheet.data.num_views)
    validations = (work.evaluated / length - 2 * len(distinct)) / len(
        dev
    )  # reports before training and after it
    assert validations == pytest.approx(round(validations), abs=0.01)
    assert round(validations) >= 2
