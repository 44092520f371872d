"""A run that starts from an experiment: what both runs share, and where the first one lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from sts_lightning.config.compose import check_choices
from sts_lightning.config.earlier_runs import compose_runs, first_overrides
from sts_lightning.config.folders import VARIABLE
from sts_lightning.config.identity import configuration_hash
from sts_lightning.core.errors import ConfigError
from tests.support.two_runs import write_experiments


def test_what_both_runs_share() -> None:
    shared = [
        *("model=mistral7b", "+model.revision=x", "~model.adapter", "prompt.pooling=null", "recipe=lora"),
        *("scale=minilm", "debug=fast", "seed=2", "data_root=a", "dev=stsb_clean", "evaluation.final=false"),
        *("trainer=cpu", "trainer.devices=2", "trainer.micro_batch_size=8", "logger=csv"),
        "auxiliary.sources=[runs/a]",
    ]
    own = [
        *("experiment=pcc", "name=x", "data=toy", "data.batch_size=8", "path=a.csv", "loss=cosent"),
        *(
            "loss.scale=10",
            "optim.lr=1e-5",
            "regularizer=none",
            "callbacks=ema",
            "init_from=experiment:a",
        ),
        *("trainer.max_steps=3", "trainer.init=best", "hydra.run.dir=x", "datasets=1", "+width=3"),
    ]
    both = [text for pair in zip(own, shared, strict=False) for text in pair] + shared[len(own) :]
    assert first_overrides("one", both) == ["experiment=one", *shared]
    chosen = [
        "auxiliary=teacher",
        "auxiliary.sources=[runs/a]",
    ]  # settings of a choice that is this run's own
    assert first_overrides("one", chosen) == ["experiment=one"]


def test_the_two_runs_of_the_papers_recipe() -> None:
    first, second = compose_runs(["experiment=pcc", "prompt=sum", "data.batch_size=32", "loss=cosent"])
    assert (first.name, first.init_from, first.data.batch_size) == (
        "pcc_stage1",
        None,
        240,
    )  # a published cell
    assert (second.name, second.data.batch_size, second.trainer.init) == ("pcc", 32, "final")
    assert second.init_from == f"runs/{configuration_hash(first)}"
    assert first.loss._target_.endswith("InfoNCELoss")
    assert second.loss._target_.endswith("CoSENTLoss")  # a choice in one of the two
    (alone,) = compose_runs(["experiment=pcc_stage1", "prompt=sum"])
    assert first == alone


def test_minilm_in_a_template_has_the_published_stages_at_its_own_size() -> None:
    published = compose_runs(["experiment=pcc"])
    for run, other in zip(compose_runs(["experiment=minilm_eol"]), published, strict=True):
        assert run.model._target_.endswith("from_pretrained") and "MiniLM" in run.model.name
        assert (run.loss._target_, run.data._target_) == (other.loss._target_, other.data._target_)
        assert (run.prompt.template, run.senteval_text) == (other.prompt.template, other.senteval_text)
        assert (run.model.max_length, run.trainer.init) == (other.model.max_length, other.trainer.init)


def test_a_teacher_is_that_of_both_runs() -> None:
    runs = compose_runs(["experiment=minilm_distilled", "auxiliary.sources=[runs/a]"])
    assert [run.auxiliary.sources for run in runs] == [["runs/a"]] * 2
    plain = compose_runs(["experiment=minilm_eol"])[-1]
    for key in ("model", "prompt", "data", "optim", "trainer", "senteval_text"):
        assert runs[-1][key] == plain[key]
    assert runs[-1].loss.terms.pearson._target_ == plain.loss._target_


def test_what_makes_two_runs_start_from_the_same_one() -> None:
    def start(*overrides: str) -> str:
        return str(compose_runs(["experiment=pcc", *overrides])[-1].init_from)

    same = start()
    assert start("name=other", "data_root=elsewhere", "optim.lr=1e-5", "trainer.micro_batch_size=8") == same
    assert len({same, start("seed=2"), start("model.max_length=16"), start("prompt=sum")}) == 4


def test_a_chain_of_three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    three = "# @package _global_\ndefaults: [two]\nname: three\ninit_from: experiment:two\n"
    circle = "# @package _global_\ninit_from: experiment:circle\n"
    wrong = "# @package _global_\noptim: {schedule: step}\n"
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    write_experiments(tmp_path)
    write_experiments(tmp_path, three=three, circle=circle, wrong=wrong)
    runs = compose_runs(["experiment=three", "model=tiny_bert", "seed=7"])
    assert [(run.name, run.seed, run.model.hidden_size) for run in runs] == [
        (name, 7, runs[0].model.hidden_size) for name in ("one", "two", "three")
    ]
    assert [run.init_from for run in runs] == [
        None,
        *(f"runs/{configuration_hash(run)}" for run in runs[:-1]),
    ]
    for start, message in (
        ("circle", "init_from=experiment:circle: the experiment starts from itself"),
        ("onee", "there is no experiment named 'onee'. Did you mean one"),
        ("wrong", r"optim\.schedule=step: Input should be 'linear'"),
    ):
        with pytest.raises(ConfigError, match=message):
            compose_runs(["data=toy", f"init_from=experiment:{start}"])


def test_a_run_is_the_same_wherever_the_one_before_lies() -> None:
    (first,) = compose_runs(["data=toy", "init_from=runs/a/0123456789"])
    (moved,) = compose_runs(["data=toy", "init_from=/elsewhere/0123456789"])
    (other,) = compose_runs(["data=toy", "init_from=runs/a/mine"])
    (another,) = compose_runs(["data=toy", "init_from=runs/b/mine"])
    hashes = [configuration_hash(run) for run in (first, moved, other, another)]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


@pytest.mark.parametrize(
    "typed", ["+stages.one.experiment=stage2", "stages.stage2.optim.lr=1e-4", "stages={}"]
)
def test_stages_are_answered(typed: str) -> None:
    with pytest.raises(ConfigError, match="init_from=experiment:NAME") as caught:
        check_choices(["experiment=pcc", typed])
    assert caught.value.key == "stages"
