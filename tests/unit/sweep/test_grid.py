"""What is said of a job whose configuration is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose

from sts_lightning.config.compose import composing
from sts_lightning.core.errors import ConfigError
from sts_lightning.sweep.grid import Grid, naming_job


@pytest.mark.parametrize(
    ("override", "reason", "key"),
    [
        ("optim.lrr=1", "optim.lrr: no such setting. Did you mean optim.lr?", "optim.lrr"),
        ("optim.lr=fast", "optim.lr=fast: Value 'fast' of type 'str' could not", "optim.lr"),
    ],
)
def test_a_job_words_its_errors_as_a_single_run_does(override: str, reason: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught, naming_job([override]), composing():
        compose("train", [override])
    assert str(caught.value).startswith(f"job {override}: {reason}")
    assert caught.value.key == key


def test_a_broken_file_names_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loss").mkdir()
    (tmp_path / "loss" / "mine.yaml").write_text("a: [1\n")
    monkeypatch.setenv("STS_CONF", str(tmp_path))
    with (
        pytest.raises(ConfigError, match=r"job loss=mine: .*mine\.yaml"),
        naming_job(["loss=mine"]),
        composing(),
    ):
        compose("train", ["loss=mine"])


def test_jobs_have_the_settings_of_the_command_but_for_its_plan() -> None:
    """Also one that is resumed, whose command is the same, and one that another job starts from."""
    typed = ["experiment=pcc", "model=minilm", "plan=24GB", "traceback=true", "trust=true"]
    with composing():
        grid = Grid(lambda texts, number: compose("train", texts, return_hydra_config=True))
        job = grid.add(0, typed)
        plain = Grid(grid.compose_job).add(0, typed[:2])
    assert job.folder == plain.folder
    first, last = grid.to_run()
    assert last is job
    assert job.overrides == ("experiment=pcc", "model=minilm", "traceback=true", "trust=true")
    assert first.overrides[1:] == job.overrides[1:]
