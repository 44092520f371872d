"""What of `make check-gpu` needs no GPU, and its rehearsal on a CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import check_gpu
import pytest
import torch
from omegaconf import DictConfig
from transformers import MistralConfig

from sts_lightning.config.check import check_config
from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_decoders import write_mistral
from tests.conftest import ROOT
from tests.test_makefile import commands

SCRIPT = ROOT / "benchmarks" / "check_gpu.py"

REPORT = """<testsuites><testsuite>
<testcase name="good"/><testcase name="bad[a|b]"><failure/></testcase>
<testcase name="broken"><error/></testcase><testcase name="absent"><skipped/></testcase>
</testsuite></testsuites>"""


def step(limit: int = 60) -> check_gpu.Step:
    return check_gpu.Step("1 a step", lambda bench: "", "a|b", limit)


def test_without_a_gpu_it_says_so_and_fails(tmp_path: Path) -> None:
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(SCRIPT), "--report", str(tmp_path / "report.md")]
    done = subprocess.run(command, env=hidden, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "No CUDA device is visible to torch: nothing was checked. " in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_the_target_of_the_makefile(tmp_path: Path) -> None:
    assert commands("check-gpu", tmp_path / "venv").rstrip().endswith("benchmarks/check_gpu.py")


def test_all_steps_fit_into_25_minutes() -> None:
    assert sum(found.limit for found in check_gpu.STEPS) <= 25 * 60


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


@pytest.mark.slow
def test_a_step_passes_fails_or_is_stopped_with_what_it_started(tmp_path: Path) -> None:
    passed = check_gpu.perform(step(), ["sh", "-c", "echo much; echo seen: 7 s"])
    failed = check_gpu.perform(step(), ["sh", "-c", "echo why >&2; exit 3"])
    started = tmp_path / "started"
    late = f"sleep 60 & echo $! > {started}; echo half; wait"
    stopped = check_gpu.perform(step(limit=1), ["sh", "-c", late])
    assert [(found.ok, found.seen) for found in (passed, failed, stopped)] == [
        (True, "7 s"),
        (False, "why"),
        (False, "stopped after 1 s: half"),
    ]
    assert 1 <= stopped.seconds < 30
    state = Path("/proc") / started.read_text().strip() / "stat"
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


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


@pytest.mark.slow
@pytest.mark.parametrize("rehearse", [False, True])
def test_the_settings_of_each_run_compose(
    rehearse: bool, tmp_path: Path, config: Callable[..., DictConfig]
) -> None:
    bench = check_gpu.Bench(tmp_path, rehearse)
    for name in check_gpu.RUNS:
        cfg = check_config(config(*bench.settings(name)))
        assert cfg.trainer.accelerator == "cpu" or not rehearse, name


@pytest.mark.slow
def test_the_rehearsal_runs_whole(tmp_path: Path) -> None:
    """Each command with its settings: what fails here would fail on a GPU."""
    report = tmp_path / "report.md"
    command = [sys.executable, str(SCRIPT), "--rehearse", "--report", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    rows = [line[2:-2].split(" | ") for line in report.read_text().splitlines() if line.startswith("|")]
    outcome = {row[0]: row[-1] for row in rows[2:]}
    assert outcome == {found.name: "" if found.gpu else "yes" for found in check_gpu.STEPS}
    assert list(tmp_path.iterdir()) == [report]


def test_the_model_is_read_like_any_other(tmp_path: Path) -> None:
    config = MistralConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    state = torch.get_rng_state()
    write_mistral(tmp_path, config)
    assert torch.equal(torch.get_rng_state(), state)
    encoder = SentenceEncoder.from_pretrained(str(tmp_path), dtype="bfloat16", pooling="last_token")
    assert encoder.plain_backbone.config.vocab_size == 32000
    assert encoder.encode(["a dog", "a cat"]).shape == (2, 32)
