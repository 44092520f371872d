from __future__ import annotations

import re
from pathlib import Path

from sts_lightning.runs.metrics import environment, hardware, peak_memory


def test_environment_names_versions_and_commit() -> None:
    facts = environment()
    assert {"python", "torch", "lightning", "transformers"} <= facts["versions"].keys()
    assert facts["git_commit"] is None or len(facts["git_commit"].partition("+")[0]) == 40


def test_peak_memory_is_that_of_this_process() -> None:
    assert peak_memory()["host"] > 50e6


def test_hardware_names_the_processor(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: A Chip 7\nflags\t: x\n")
    assert re.fullmatch(r"A Chip 7, \d+ cores?", hardware(tmp_path / "cpuinfo"))
    assert re.fullmatch(r".+, \d+ cores?", hardware(tmp_path / "absent"))
    assert environment()["hardware"] == hardware()
