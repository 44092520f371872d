from __future__ import annotations

from sts_lightning.runs.metrics import environment, peak_memory


def test_environment_names_versions_and_commit() -> None:
    facts = environment()
    assert {"python", "torch", "lightning", "transformers"} <= facts["versions"].keys()
    assert facts["git_commit"] is None or len(facts["git_commit"].partition("+")[0]) == 40


def test_peak_memory_is_that_of_this_process() -> None:
    assert peak_memory()["host"] > 50e6
