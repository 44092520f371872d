"""Composition of what train.py would run."""

from __future__ import annotations

from sts_lightning.planning.compose import compose_runs


def test_a_run_and_its_stages() -> None:
    (name,) = compose_runs(["model=tiny_bert", "data=toy"])
    assert name == "run"
    stages = compose_runs(["experiment=pcc", "prompt=sum", "+stages.stage2.data.batch_size=32"])
    assert list(stages) == ["stage1", "stage2"]
    assert stages["stage1"].data.batch_size == 240  # the published cell
    assert stages["stage2"].data.batch_size == 32
    assert stages["stage2"].name == "plan-stage2"


def test_minilm_in_a_template_has_the_published_stages_at_its_own_size() -> None:
    stages = compose_runs(["experiment=minilm_eol"])
    published = compose_runs(["experiment=pcc"])
    assert len(stages) == len(published) == 2
    for stage, other in zip(stages.values(), published.values(), strict=True):
        assert stage.model._target_.endswith("from_pretrained") and "MiniLM" in stage.model.name
        assert (stage.loss._target_, stage.data._target_) == (other.loss._target_, other.data._target_)
        assert (stage.prompt.template, stage.senteval_text) == (other.prompt.template, other.senteval_text)
        assert (stage.model.max_length, stage.init) == (other.model.max_length, other.init)


def test_a_teacher_is_that_of_both_stages() -> None:
    stages = compose_runs(["experiment=minilm_distilled", "companion.sources=[runs/a]"])
    assert [stage.companion.sources for stage in stages.values()] == [["runs/a"]] * 2
    plain = compose_runs(["experiment=minilm_eol"])["pairs"]
    for key in ("model", "prompt", "data", "optim", "trainer", "init", "senteval_text"):
        assert stages["pairs"][key] == plain[key]
    assert stages["pairs"].loss.terms.pearson._target_ == plain.loss._target_
