"""Dev pairs of several kinds: what is in them, and what training leaves out for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from sts_lightning.core.errors import ConfigError
from sts_lightning.evaluation.score import score_data
from sts_lightning.models.loading.run import load
from sts_lightning.runs.folder import RunFolder
from sts_lightning.training.assembly import make_data
from sts_lightning.workflows.command import train_in
from tests.unit.data.test_dev_suite import suite_root as suite_root


@pytest.mark.parametrize("final", [True, False])
def test_a_run_is_selected_by_the_mean_of_the_parts(
    suite_root: Path, config: Callable[..., DictConfig], tmp_path: Path, final: bool
) -> None:
    cfg = config(
        "data=sts",
        f"data_root={suite_root}",
        "dev=suite",
        "model=tiny_bert",
        "data.batch_size=2",
        "trainer.max_epochs=2",
        "trainer.val_every=null",
        "callbacks=[rank_monitor]",
        f"evaluation.final={str(final).lower()}",
    )
    run = RunFolder(tmp_path / "run")
    score = train_in(run.path, cfg)
    dev = run.metrics().dev
    assert dev is not None
    parts = {name: part["spearman"] for name, part in dev["parts"].items()}
    assert list(parts) == ["stsb", "sick", "news", "nli", "paraphrase"]
    assert score == dev["spearman"] == pytest.approx(sum(parts.values()) / 5)
    rows = [row for row in run.history() if "dev/spearman" in row]
    for row in rows:
        assert row["dev/spearman"] == pytest.approx(sum(row[f"dev/{name}"] for name in parts) / 5, abs=1e-3)
    best = max(rows[1:], key=lambda row: row["dev/spearman"])
    assert run.metrics().details["best_step"] == best["step"]
    data = make_data(cfg)
    data.setup()
    again = score_data(load(run.path), data, cfg.evaluation).dev
    assert again["spearman"] == pytest.approx(score, abs=1e-3)
    assert (run.plots / "dev_cosines.png").is_file()
    assert ("premise 0" in (run.path / "report.html").read_text()) == (not final)


def test_a_start_that_may_have_seen_the_suite_gives_a_warning(
    suite_root: Path, config: Callable[..., DictConfig], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    same = [
        "data=sts",
        f"data_root={suite_root}",
        "model=tiny_bert",
        "data.batch_size=2",
        "trainer.max_epochs=1",
        "evaluation.final=false",
    ]
    train_in(tmp_path / "papers", config(*same))
    train_in(tmp_path / "clean", config(*same, "dev=suite"))
    for start, warned in (("papers", True), ("clean", False)):
        caplog.clear()
        train_in(tmp_path / f"after_{start}", config(*same, "dev=suite", f"init_from={tmp_path / start}"))
        assert ("may have trained on dev pairs of this run" in caplog.text) == warned


@pytest.mark.parametrize("overrides", [["data=toy"], ["data=pairs_file", "path=mine.csv"]])
def test_data_with_dev_pairs_of_its_own_rejects_the_suite(
    config: Callable[..., DictConfig], tmp_path: Path, overrides: list[str]
) -> None:
    cfg = config(*overrides, "dev=suite", "model=tiny_bert")
    with pytest.raises(ConfigError, match="dev=suite has no effect") as caught:
        train_in(tmp_path / "run", cfg)
    assert caught.value.key == "dev"
