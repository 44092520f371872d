"""`sts-lightning runs mean`."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from sts_lightning.cli.main import main
from sts_lightning.core.errors import CheckpointError, UserError
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.listing import mean_scores


def save(run: Path, dev: float, stsb: float, **more: object) -> None:
    run.mkdir()
    test = {"average": stsb, "tasks": {"STSB": {"spearman": stsb}}}
    (run / "metrics.json").write_text(json.dumps({"dev": {"spearman": dev}, "test": test, **more}))


@pytest.mark.parametrize("kind", ["dev", "tests"])
def test_scores_of_different_pairs_have_no_mean(kind: str, tmp_path: Path) -> None:
    same: dict[str, object] = {"train": "t", "dev": "d", "tests": {"STSB": "s"}}
    for name, content in (("a", same), ("b", {**same, "train": "u"}), ("c", {**same, kind: "other"})):
        save(
            tmp_path / name,
            88.0,
            80.0,
            content=content if kind == "dev" or name != "c" else {"tests": {"STSB": "x"}},
        )
    assert mean_scores([tmp_path / "a", tmp_path / "b"])["mean"]["dev"] == 88.0
    with pytest.raises(UserError, match=rf"a and c have scores of different {kind} pairs"):
        mean_scores([tmp_path / name for name in "abc"])


def test_mean_and_sample_deviation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for index, score in enumerate([80.0, 81.0, 85.0]):
        save(tmp_path / str(index), 88.0, score)
    summary = mean_scores([tmp_path / str(index) for index in range(3)])
    assert summary["mean"]["STSB"] == 82.0
    assert summary["std"]["average"] == statistics.stdev([80.0, 81.0, 85.0])
    main(["runs", "mean", *(str(tmp_path / str(index)) for index in range(3))])
    assert "82.00" in capsys.readouterr().out


def test_tasks_in_another_order_and_a_folder_called_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, order in (("mean", ("A", "B")), ("b", ("B", "A"))):
        (tmp_path / name).mkdir()
        tasks = {task: {"spearman": 10.0 + (task == "B")} for task in order}
        test = {"average": 10.5, "tasks": tasks}
        (tmp_path / name / "metrics.json").write_text(json.dumps({"dev": {"spearman": 55.0}, "test": test}))
    monkeypatch.chdir(tmp_path / "mean")
    main(["runs", "mean", ".", "../b"])
    printed = capsys.readouterr().out
    assert printed.count("55.00") == 3
    assert "mean" in printed


def test_unfinished_and_broken_runs(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").touch()
    with pytest.raises(CheckpointError, match="not a finished run"):
        _ = RunFolder(tmp_path).metrics().scores
    (tmp_path / "metrics.json").write_text('{"dev": ')
    with pytest.raises(CheckpointError, match=r"metrics\.json is broken"):
        _ = RunFolder(tmp_path).metrics().scores
    with pytest.raises(SystemExit, match="at least two"):
        main(["runs", "mean", str(tmp_path)])


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ('{"dev": {"spearman": NaN}, "test": null}', "dev.spearman is nan"),
        ('{"dev": {"spearman": "high"}, "test": null}', r"metrics\.json is broken"),
        ('{"dev": {"spearman": 80.0}, "test": null}', "different tasks"),
        ('{"test": null}', r"metrics\.json is broken"),
        ("[]", r"metrics\.json is broken"),
        ("", r"metrics\.json is broken"),
    ],
)
def test_results_that_cannot_be_summarised(second: str, message: str, tmp_path: Path) -> None:
    save(tmp_path / "good", 88.0, 80.0)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "metrics.json").write_text(second)
    with pytest.raises(SystemExit, match=message):
        main(["runs", "mean", str(tmp_path / "good"), str(tmp_path / "other")])


def test_runs_of_one_name_in_two_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, score in enumerate([80.0, 82.0]):
        (tmp_path / str(number)).mkdir()
        save(tmp_path / str(number) / "run", 88.0, score)
    runs = [str(tmp_path / str(number) / "run") for number in range(2)]
    main(["runs", "mean", *runs])
    assert "81.00" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="named twice"):
        main(["runs", "mean", runs[0], f"{tmp_path}/0/../0/run"])


@pytest.mark.parametrize(
    "changed", [{"text_edit": "prompt_bert"}, {"precision": "16-true"}, {"max_length": 32}]
)
def test_runs_that_were_evaluated_differently(changed: dict[str, object], tmp_path: Path) -> None:
    for name in ("one", "other"):
        save(tmp_path / name, 88.0, 80.0)
    path = tmp_path / "other" / "metrics.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(SystemExit, match=r"evaluated differently .*one: aggregate=all, .*; other: "):
        main(["runs", "mean", str(tmp_path / "one"), str(tmp_path / "other")])


def test_a_run_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """It was left out of the mean; files, which a pattern may match too, are."""
    for name in ("one", "two"):
        save(tmp_path / name, 88.0, 80.0)
    (tmp_path / "scores.csv").touch()
    main(["runs", "mean", *(str(tmp_path / name) for name in ("one", "two", "scores.csv"))])
    with pytest.raises(SystemExit, match=r"three has no metrics\.json"):
        main(["runs", "mean", *(str(tmp_path / name) for name in ("one", "two", "three"))])
