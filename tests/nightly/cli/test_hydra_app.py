"""The commands, run as a user runs them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sts_lightning.core.errors import DataError
from tests.conftest import SHORT_RUN
from tests.runs.test_commands import Cli
from tests.runs.test_commands import script as script

Script = Callable[..., tuple[object, str]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["loss.temprature=1"], "loss.temprature: no such setting."),
        (["max_steps=5"], "Did you mean trainer.max_steps?"),
        (
            ["regularizer.coefficient=1"],
            "regularizer=global_orthogonal and regularizer=rank_reduction.",
        ),
        (["regularizer.coeficient=1"], "regularizer.coeficient: no such setting. Did you mean regularizer?"),
        (["loss=pearsn"], "there is no loss named 'pearsn'. Did you mean pearson"),
        (
            ["loss=kendall"],
            "there is no loss named 'kendall'. loss=spearman and loss=concordance are nearest",
        ),
        (
            ["dev=suite"],
            "'stsb_clean'. dev=stsb_clean has no test pairs",
        ),
        (
            ["loss=divided", "loss@loss.inner=infonce", "loss.parts=4"],
            "The shards of loss=divided are loss.shards now",
        ),
        (["optim.lr=high"], "optim.lr=high"),
        (["prompt.template={sentence}: it"], """the shell: 'prompt.template="{sentence}: it"'."""),
        (["callbacks=emma"], "there is no callback named 'emma'. Did you mean ema?"),
        (["loss=infonce", "data=toy"], "InfoNCELoss needs 2 or more views and no label, but this data gives"),
        (["data_root=nowhere"], "nowhere: no STS data here"),
        (["data=pairs_file", "path=none.csv"], "none.csv: cannot be read"),
        (["resume=."], ". is not a run folder"),
        (["resume=''"], "resume=: String should have at least 1 character"),
        (["resume=.", "trust=my.Loss"], "trust=my.Loss: Input should be a valid boolean"),
        (["--plan"], "plan lists the jobs of a sweep: add -m"),
        (["--share-stages", "-m"], "--share-stages is no option any more. Stages are runs of their own"),
        (["experiment=pcc", "+stages.stage2.loss=cosent"], "stages: no such setting. Stages are runs of"),
    ],
)
def test_a_mistake_is_one_message_and_leaves_nothing(
    arguments: list[str], message: str, script: Script, tmp_path: Path
) -> None:
    status, said = script("train.py", *arguments)
    assert status == 1
    assert message in said
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (
            ["auxiliary.sources=[a]", "optim.lrr=1"],
            [
                "auxiliary.sources: no such setting. It belongs to auxiliary=teacher.",
                "optim.lrr: no such setting. Did you mean optim.lr?",
            ],
        ),
        (
            ["model=minilmm", "path={sentence}: it"],
            ["path={sentence}: it: Hydra cannot read this.", "model=minilmm: there is no model named"],
        ),
        (
            ["seed=-1", "optim.lr=0"],
            ["seed=-1: Input should be", "optim.lr=0.0: Input should be greater"],
        ),
    ],
)
def test_mistakes_are_one_message_with_a_line_for_each(
    arguments: list[str], messages: list[str], script: Script, tmp_path: Path
) -> None:
    status, said = script("train.py", *arguments)
    assert status == 1
    first, *lines = said.splitlines()
    assert first == f"error: {len(messages)} mistakes:"
    for line, message in zip(lines, messages, strict=True):
        assert line.startswith(f"  {message}")
    assert list(tmp_path.rglob("*")) == []


def test_a_file_in_the_place_of_a_folder(script: Script, tmp_path: Path) -> None:
    (tmp_path / "one.csv").touch()
    for folder in ("one.csv", "one.csv/x"):
        status, told = script("train.py", "model=tiny_bert", "data=toy", f"hydra.run.dir={folder}")
        assert status == 1
        assert told.startswith("error: ")
        assert "one.csv" in told


@pytest.mark.parametrize("option", ["--seed=1", "-seed=1"])
def test_settings_have_no_dashes(option: str, script: Script) -> None:
    status, said = script("train.py", option)
    assert status == 2
    assert "unrecognized arguments: " in said
    assert said.endswith("Settings are given as key=value, without dashes, as in seed=1.\n")


def test_debug_shows_the_stack(script: Script) -> None:
    with pytest.raises(DataError, match="no STS data here"):
        script("train.py", "data_root=nowhere", "--debug")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data_root=nowhere"], "nowhere: no STS data here"),
        (["ckpt=nowhere"], "nowhere is not a run folder"),
        (["aggregate=median"], "aggregate=median: Input should be 'all', 'mean' or 'wmean'"),
        (["precision=bf16-mixed"], "precision=bf16-mixed: Input should be"),
    ],
)
def test_evaluation_mistakes(arguments: list[str], message: str, script: Script, mini_root: str) -> None:
    status, said = script("eval.py", f"data_root={mini_root}", "tasks=[STSB]", *arguments)
    assert status == 1
    assert message in said
    assert said.count("\n") == 1


@pytest.fixture
def mini_root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A data root with one task of generated pairs."""
    root = tmp_path_factory.mktemp("data")
    folder = root / "senteval" / "STS" / "STSBenchmark"
    folder.mkdir(parents=True)
    (root / "senteval" / "counts.json").write_text("{}")
    rows = [f"g\tf\ty\t{i}\t{i % 6}\tsentence {i}\tanother {i * 7}" for i in range(30)]
    (folder / "sts-test.csv").write_text("\n".join(rows))
    return str(root)


def test_evaluation_of_a_run_repeats_its_scores(cli: Cli, mini_root: str, tmp_path: Path) -> None:
    assert cli("train.py", *SHORT_RUN, "trainer.max_steps=3", "hydra.run.dir=run").returncode == 0
    arguments = ["ckpt=run", f"data_root={mini_root}", "tasks=[STSB]"]
    scores = []
    for folder in ("one", "two"):
        done = cli("eval.py", *arguments, f"hydra.run.dir={folder}", fresh=folder == "one")
        assert done.returncode == 0, done.stderr
        scores.append(json.loads((tmp_path / folder / "metrics.json").read_text())["test"])
    assert scores[0] == scores[1]
    assert set(scores[0]["tasks"]) == {"STSB"}


def test_hydras_own_launcher_gives_each_job_a_folder_too(cli: Cli, tmp_path: Path) -> None:
    basic = ["hydra/launcher=basic", "hydra.sweep.dir=sweep"]
    done = cli("train.py", "-m", *SHORT_RUN, "trainer.max_steps=2", "seed=1,2", *basic)
    assert done.returncode == 0, done.stderr
    seeds = [
        json.loads((tmp_path / "sweep" / job / "metrics.json").read_text())["seed"] for job in ("0", "1")
    ]
    assert seeds == [1, 2]


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("model=null", "minilm"),
        ("loss=5", "infonce"),
        ("logger=true", "tensorboard"),
    ],
)
def test_a_group_that_is_not_a_name(argument: str, named: str, script: Script) -> None:
    status, said = script("train.py", "seed=2", "data=toy", argument)
    assert status == 1
    group, _, name = argument.partition("=")
    assert said.startswith(f"error: {argument}: there is no {group} named '{name}'. There are: ")
    assert named in said
