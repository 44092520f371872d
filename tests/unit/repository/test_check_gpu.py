"""What of `make check-gpu` needs no GPU, and its rehearsal on a CPU."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import check_gpu
import pytest
import torch
from transformers import MistralConfig

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.planning import cost

REPORT = """<testsuites><testsuite>
<testcase name="good"/><testcase name="bad[a|b]"><failure/></testcase>
<testcase name="broken"><error/></testcase><testcase name="absent"><skipped/></testcase>
</testsuite></testsuites>"""


def step(limit: int = 60) -> check_gpu.Step:
    return check_gpu.Step("1 a step", lambda bench: "", "a|b", limit)


def test_all_steps_fit_into_25_minutes() -> None:
    assert sum(found.limit for found in check_gpu.STEPS) <= 25 * 60


LOADING = {"front page": 30, "32 layers": 100, "segments": 25}
"""Seconds beside training: imports, and in steps 1 and 2 writing the weights; step 2 loads them twice."""


@pytest.mark.parametrize("card", ["t4", "rtx3090", "h100"])
def test_a_step_has_time_for_what_is_planned_on_a_card(card: str, tmp_path: Path) -> None:
    check_plan(card, tmp_path)


def check_plan(card: str, tmp_path: Path) -> None:
    """Check that a step's limit holds what is planned for a card, and what comes beside it."""
    bench = check_gpu.Bench(tmp_path, False)
    (tmp_path / check_gpu.CARD).write_text(json.dumps(asdict(cost.CARDS[card])))
    limits = {found.name.split()[0]: found.limit for found in check_gpu.STEPS}
    for name, number in (("front page", "1"), ("32 layers", "2"), ("segments", "14"), ("segments", "15")):
        if cost.CARDS[card].precision == "32-true" and name != "front page":
            with pytest.raises(check_gpu.LeftOut):
                bench.share(name)
            continue
        share = bench.share(name)
        found = bench.cost(name, share)
        assert found.fits
        assert found.seconds is not None
        assert found.seconds + LOADING[name] <= limits[number], name
        if name == "32 layers":  # step 4 does six of its steps, and builds three models
            assert 6 * found.seconds / found.steps + 60 <= limits["4"]
            assert share == 1 or cost.CARDS[card].memory < 50 * 2**30


def test_a_card_of_unknown_speed_gets_less_and_a_slow_one_is_left_out(tmp_path: Path) -> None:
    bench = check_gpu.Bench(tmp_path, False)
    (tmp_path / check_gpu.CARD).write_text(json.dumps(asdict(cost.Card("A10G", 23 * 2**30))))
    assert bench.share("32 layers") == 1 / 4
    settings = bench.settings("32 layers", 1 / 4)
    assert {"data.batch_size=64", "data.dev_size=50", "data.test_size=12"} <= {*settings}
    left_out = check_gpu.perform(step(), ["sh", "-c", "echo too slow; exit 77"])
    assert (left_out.ok, left_out.seen) == (None, "too slow")


def test_failed_tests_are_counted_and_named(tmp_path: Path) -> None:
    report = tmp_path / "tests.xml"
    report.write_text(REPORT)
    with pytest.raises(RuntimeError, match=r"^1 passed, 2 failed, 1 skipped: bad\[a\|b\], broken$"):
        check_gpu.outcomes(report)
    tier = '<testsuites><testsuite><testcase name="x">{}</testcase></testsuite></testsuites>'
    report.write_text(tier.format("<skipped/>"))
    with pytest.raises(RuntimeError, match="0 passed"):  # a tier that ran nothing has not passed
        check_gpu.outcomes(report)
    report.write_text(tier.format(""))
    assert check_gpu.outcomes(report) == "1 passed, 0 failed, 0 skipped"


def test_the_table_has_the_output_of_failed_steps_alone() -> None:
    results = [
        check_gpu.Result(step(), True, "card, driver", 2.0, "fine"),
        check_gpu.Result(step(), False, "x|y", 61.4, "long" * 1000 + "the end"),
        check_gpu.Result(step(), None, "needs a GPU"),
    ]
    text = check_gpu.report(results)
    assert text.startswith("`make check-gpu`: card, driver\n")
    assert "| 1 a step | a/b | x/y | 61 | **no** |\n| 1 a step | a/b | needs a GPU | 0 |  |\n" in text
    assert text.endswith("the end\n```\n")
    assert "fine" not in text
    assert len(text) < 4000


def test_the_model_is_read_like_any_other(tmp_path: Path) -> None:
    config = MistralConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    state = torch.get_rng_state()
    check_gpu.write_mistral(tmp_path, config)
    assert torch.equal(torch.get_rng_state(), state)
    encoder = SentenceEncoder.from_pretrained(str(tmp_path), dtype="bfloat16", pooling="last_token")
    assert encoder.plain_backbone.config.vocab_size == 32000
    assert encoder.encode(["a dog", "a cat"]).shape == (2, 32)
