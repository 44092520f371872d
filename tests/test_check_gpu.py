"""Parts of `make check-gpu` that need no GPU; `benchmarks/check_gpu.py --rehearse` runs all on a CPU."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import check_gpu
import pytest
import torch
from transformers import MistralConfig

from sts_lightning.models.encoder import SentenceEncoder
from sts_lightning.testing.tiny_decoders import write_mistral
from tests.conftest import ROOT
from tests.test_makefile import commands

SCRIPT = ROOT / "benchmarks" / "check_gpu.py"

REPORT = """<testsuites><testsuite>
<testcase name="good"/><testcase name="bad[a|b]"><failure/></testcase>
<testcase name="broken"><error/></testcase><testcase name="absent"><skipped/></testcase>
</testsuite></testsuites>"""


def test_without_a_gpu_it_says_so_and_fails(tmp_path: Path) -> None:
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], env=hidden, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "No CUDA device" in done.stderr
    assert done.stdout == ""


def test_the_target_of_the_makefile(tmp_path: Path) -> None:
    assert commands("check-gpu", tmp_path / "venv").rstrip().endswith("benchmarks/check_gpu.py")


def test_failed_tests_are_counted_and_named(tmp_path: Path) -> None:
    report = tmp_path / "tests.xml"
    report.write_text(REPORT)
    row = check_gpu.tests_row(report, check_gpu.Done(1, "", 2.0))
    assert not row.ok
    assert str(row) == "| pytest -m gpu | 1 passed, 2 failed, 1 skipped: bad[a/b], broken | 2.0 |  |  |"
    skipped = '<testsuites><testsuite><testcase name="x"><skipped/></testcase></testsuite></testsuites>'
    report.write_text(skipped)
    row = check_gpu.tests_row(report, check_gpu.Done(0, "", 2.0))
    assert not row.ok  # a tier that ran nothing has not passed


@pytest.mark.slow
def test_a_command_that_fails_or_hangs_is_a_failed_part() -> None:
    done = check_gpu.call([sys.executable, "-c", "print('a|b'); exit(3)"], time.monotonic() + 60)
    assert done.failure == "failed (exit status 3): a/b"
    done = check_gpu.call([sys.executable, "-c", "import time; time.sleep(60)"], time.monotonic() + 1)
    assert done.status is None
    assert done.failure.startswith("stopped after")


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
