"""A run that was stopped, and resumed, ends with the numbers of an uninterrupted one."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig

from sts_lightning.core.errors import CheckpointError, ConfigError, InterruptedRunError
from sts_lightning.core.hardware import resolve_machine, with_machine
from sts_lightning.evaluation import score
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.state import differing
from sts_lightning.training import assembly
from sts_lightning.workflows.start import train_in
from tests.runs.test_resume import Config
from tests.support.interruptions import StopAt, StopInEvaluation
from tests.support.whole_runs import EPOCHS, same_results

Cli = Callable[..., subprocess.CompletedProcess[str]]


def test_the_scores_before_training_are_those_of_an_uninterrupted_run(config: Config, tmp_path: Path) -> None:
    cfg = [*EPOCHS, "evaluation.untuned=true"]
    train_in(tmp_path / "whole", config(*cfg))
    with pytest.raises(InterruptedRunError):
        train_in(tmp_path / "run", config(*cfg), callbacks=[StopAt(7)])
    train_in(tmp_path / "run", RunFolder(tmp_path / "run").load_config(), resume=True)
    same_results(tmp_path / "whole", tmp_path / "run")
    whole, resumed = (RunFolder(tmp_path / name).metrics().details for name in ("whole", "run"))
    assert resumed["test_untuned"] == whole["test_untuned"] is not None


def test_sigterm_in_a_dev_evaluation_saves_after_it(
    uninterrupted: Path,
    config: Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = tmp_path / "run"
    with pytest.raises(InterruptedRunError, match=r"stopped by SIGTERM after step 8\."):
        train_in(run, config(*EPOCHS), callbacks=[StopInEvaluation(8)])
    assert "SIGTERM: stopping after this step or dev evaluation;" in caplog.text
    train_in(run, RunFolder(run).load_config(), resume=True)
    same_results(uninterrupted, run)


def test_a_second_sigterm_stops_at_once(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Twice(StopAt):
        def on_train_batch_start(self, trainer: Any, *args: Any) -> None:
            if trainer.global_step + 1 == self.step:
                signal.raise_signal(signal.SIGTERM)
                signal.raise_signal(signal.SIGTERM)

    run = tmp_path / "run"
    with pytest.raises(InterruptedRunError, match=r"stopped by SIGTERM\. Resume with: .* resume=") as caught:
        train_in(run, config(*EPOCHS), callbacks=[Twice(7)])
    assert caught.value.exit_status == 143
    assert RunFolder(run).read_checkpoint("last")["global_step"] == 5


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_stopped_while_loading_leaves_nothing(
    number: signal.Signals, status: int, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "build_encoder", lambda *_: signal.raise_signal(number))
    with pytest.raises(
        InterruptedRunError, match=r"before anything was written\. The same command"
    ) as caught:
        train_in(tmp_path / "run", config(*EPOCHS))
    assert caught.value.exit_status == status
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("resume", [False, True])
def test_stopped_in_the_first_evaluation_and_started_again(
    resume: bool,
    uninterrupted: Path,
    config: Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = tmp_path / "run"
    with pytest.raises(InterruptedRunError, match=r"before the first checkpoint\. Start it again") as caught:
        train_in(run, config(*EPOCHS), callbacks=[StopInEvaluation(0)])
    assert caught.value.exit_status == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with pytest.raises(ConfigError, match=r"started with other values of data\.seed, seed; .* resume="):
        train_in(run, config(*EPOCHS, "seed=2"))
    with caplog.at_level("INFO"):
        train_in(run, RunFolder(run).load_config() if resume else config(*EPOCHS), resume=resume)
    assert caplog.text.count("has no checkpoint yet: starting it again from the beginning.") == 1
    same_results(uninterrupted, run)


def test_an_error_before_training_leaves_nothing(config: Config, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"trainer\.extra"):
        train_in(tmp_path / "run", config(*EPOCHS, "+trainer.extra.no_such_option=1"))
    assert list(tmp_path.iterdir()) == []


def test_slurms_warning_and_an_interrupt_together_save_the_step(
    uninterrupted: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"

    class Warned(StopAt):
        def on_train_batch_start(self, trainer: Any, *args: Any) -> None:
            if trainer.global_step + 1 == self.step:
                signal.raise_signal(signal.SIGUSR2)
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(InterruptedRunError, match="stopped by SIGUSR2 after step 7"):
        train_in(run, config(*EPOCHS), callbacks=[Warned(7)])
    train_in(run, RunFolder(run).load_config(), resume=True)
    same_results(uninterrupted, run)


def test_sigterm_in_the_final_evaluation(
    uninterrupted: Path, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch, pytest.raises(InterruptedRunError) as caught:
        patch.setattr(score, "encode_tables", lambda *_: signal.raise_signal(signal.SIGTERM))
        train_in(run, config(*EPOCHS))
    assert "stopped by SIGTERM. Resume with: " in str(caught.value)
    assert caught.value.exit_status == 143
    train_in(run, RunFolder(run).load_config(), resume=True)
    same_results(uninterrupted, run)


def test_weighted_files_resume_to_the_bit_and_changed_files_are_rejected(
    config: Config, tmp_path: Path
) -> None:
    for name in "ab":
        rows = [f"{name} {i},{name} {i * i % 7},{i % 5}" for i in range(40)]
        (tmp_path / f"{name}.csv").write_text("sentence1,sentence2,score\n" + "\n".join(rows))
    data = ["data=pairs_file", f"path={{{tmp_path}/a.csv: 2, {tmp_path}/b.csv: 0.5}}", "data.batch_size=8"]
    own = ["precision=32-true", "model=tiny_bert", *data, "name=test", *EPOCHS[-3:]]
    train_in(tmp_path / "whole", config(*own))
    run = tmp_path / "run"
    with pytest.raises(InterruptedRunError):
        train_in(run, config(*own), callbacks=[StopAt(15)])
    content = (tmp_path / "b.csv").read_text()
    (tmp_path / "b.csv").write_text(content + "\nc,d,1\ne,f,2\n")
    with pytest.raises(CheckpointError) as caught:
        train_in(run, RunFolder(run).load_config(), resume=True)
    assert caught.value.key == "data"
    assert differing(RunFolder(run), on_this_machine(config(*own))) == ["the content of path"]
    (tmp_path / "b.csv").write_text(content)
    assert differing(RunFolder(run), on_this_machine(config(*own))) == []
    train_in(run, RunFolder(run).load_config(), resume=True)
    same_results(tmp_path / "whole", run)


def on_this_machine(cfg: DictConfig) -> DictConfig:
    return with_machine(cfg, resolve_machine(cfg))


def test_a_resumed_run_may_record_and_cost_something_else(
    uninterrupted: Path, config: Config, tmp_path: Path
) -> None:
    run, other = (
        tmp_path / "run",
        [
            "data.num_workers=1",
            "trainer.gradient_checkpointing=true",
            "trainer.save_every=3",
            "trainer.keep_every=10",
            "trainer.keep_state=true",
        ],
    )
    with pytest.raises(InterruptedRunError):
        train_in(run, config(*EPOCHS), callbacks=[StopAt(7)])
    assert differing(RunFolder(run), on_this_machine(config(*EPOCHS, *other))) == []
    train_in(run, config(*EPOCHS, *other), resume=True)
    same_results(uninterrupted, run)
    assert RunFolder(run).kept_steps() == [10, 20, 30]
