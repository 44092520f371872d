"""Composition outside a job, and messages of overrides that do not fit."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hydra import compose
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from sts_lightning.config.check import check_config
from sts_lightning.config.compose import check_choices, compose_train, composing, explain
from sts_lightning.core.conf_folders import VARIABLE, Entry, command_line
from sts_lightning.core.errors import ConfigError


def message(override: str, entry: Entry = "train") -> ConfigError:
    """What is said of an override on a command line without ``-m``."""
    given = ["data=toy", override] if entry == "train" else [override]
    with pytest.raises((ConfigError, HydraException, OmegaConfBaseException)) as caught, composing():
        check_choices(given, entry)
        compose(entry, given)
    error = caught.value
    return error if isinstance(error, ConfigError) else explain(error, entry, given)


CASES = {
    "optim.lr=abc": "optim.lr=abc: Value 'abc' of type 'str' could not be converted to Float.",
    "++optim.lr={a:1}": "optim.lr={a:1}: ",
    "stages=x": "stages=x: ",
    "trainer.save_every=null": "trainer.save_every=null: field 'trainer.save_every' is not Optional.",
    "optim=[1]": "optim=[1]: ",
    "optim.lrr=1": r"optim.lrr: no such setting. Did you mean optim.lr?",
    "regularizer.coefficient=1": "regularizer.coefficient: no such setting. It belongs to regularizer=",
    "stages.first.seed=1": "stages.first.seed: no such setting. A stage's settings are added with +",
    "hydra.sweep.dri=x": "hydra.sweep.dri: no such setting. Did you mean hydra.sweep.dir",
}


def test_settings_that_do_not_exist_are_told_together() -> None:
    given = ["optim.lrr=1", "loss=infonce", "loss.temperature=1", "trainer={max_step: 2}", "foo=1", "seed=2"]
    with composing(), pytest.raises(HydraException) as caught:
        compose("train", given)
    assert str(explain(caught.value, "train", given)).split("\n  ") == [
        "2 mistakes:",
        f"optim.lrr: no such setting. Did you mean optim.lr? See `{command_line('train', '--help')}`.",
        f"foo: no such setting. See `{command_line('train', '--help')}`.",
    ]
    (error,) = [message("optim={lrr: 1}")]
    assert error.key == "optim.lrr"


@pytest.mark.parametrize("override", CASES)
def test_a_wrong_override_is_named_as_given(override: str) -> None:
    error = message(override)
    assert str(error).startswith(CASES[override])
    assert error.key == override.strip("+").partition("=")[0]


@pytest.mark.parametrize("text", ['"{sentence}" isn\'t {it}', "my file(1).csv", "C:\\data\\é\\", "a=b", "[1"])
def test_the_quoted_form_is_the_text_as_it_was_meant(text: str) -> None:
    error = message(f"path={text}")
    assert str(error).startswith(f"path={text}: Hydra cannot read this. ")
    typed = re.search(r"for the shell: (.*)\.$", str(error), re.DOTALL)
    assert typed is not None
    (argument,) = shlex.split(typed[1])  # as a shell gives it
    override = OverridesParser.create().parse_override(argument)
    assert (override.key_or_group, override.value()) == ("path", text)


def test_several_values_are_a_sweep_a_list_or_a_text() -> None:
    assert str(message("path=a.csv,b.csv")) == (
        "path=a.csv,b.csv gives path several values, which are a sweep. Add -m to run each, write "
        "a list as 'path=[a.csv,b.csv]', or quote a text with a comma: 'path=\"a.csv,b.csv\"'."
    )
    parse = OverridesParser.create().parse_override
    assert parse("path=[a.csv,b.csv]").value() == ["a.csv", "b.csv"]
    assert "seed=range(1,3) is a sweep. Add -m" in str(message("seed=range(1,3)"))


def test_what_is_no_setting() -> None:
    words = "has no value. A setting is given as key=value, a run folder as"
    assert str(message("pearson")) == f"pearson {words} resume=RUN."
    assert str(message("runs/one", "eval")) == f"runs/one {words} ckpt=RUN."


def test_a_setting_of_a_stage() -> None:
    words = r"^stages\.a\.optim.lrr: no such setting\. Did you mean optim.lr\?"
    with pytest.raises(ConfigError, match=words):
        compose_train(["+stages.a.experiment=stage2", "+stages.a.optim.lrr=3"])


def test_a_file_of_the_users_that_is_no_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loss").mkdir()
    (tmp_path / "loss" / "mine.yaml").write_text("_target_: a\n  b: 1\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(ConfigError, match=r"loss/mine.yaml, line 2: not valid YAML \(mapping values"):
        compose_train(["loss=mine"])


def test_a_run_and_its_stages() -> None:
    ((name, cfg),) = compose_train(["model=tiny_bert", "data=toy"]).items()
    assert (name, cfg.name, cfg.init_from) == ("run", "toy-pearson-tiny_bert", None)
    assert "hydra" not in cfg
    stages = compose_train(["experiment=pcc", "prompt=sum", "+stages.stage2.data.batch_size=32"])
    assert list(stages) == ["stage1", "stage2"]
    assert stages["stage1"].data.batch_size == 240  # the published cell
    assert stages["stage2"].data.batch_size == 32
    assert stages["stage2"].name.endswith("-stage2")


def test_minilm_in_a_template_has_the_published_stages_at_its_own_size() -> None:
    stages = compose_train(["experiment=minilm_eol"])
    published = compose_train(["experiment=pcc"])
    assert len(stages) == len(published) == 2
    for stage, other in zip(stages.values(), published.values(), strict=True):
        assert stage.model._target_.endswith("from_pretrained") and "MiniLM" in stage.model.name
        assert (stage.loss._target_, stage.data._target_) == (other.loss._target_, other.data._target_)
        assert (stage.prompt.template, stage.senteval_text) == (other.prompt.template, other.senteval_text)
        assert (stage.model.max_length, stage.trainer.init) == (other.model.max_length, other.trainer.init)


def test_a_wrong_value_of_a_later_stage_is_found_while_composing() -> None:
    """A stage that several runs share is trained before any job builds the later one."""
    with pytest.raises(ConfigError, match=r"optim\.schedule=step is not among"):
        compose_train(["experiment=minilm_eol", "+stages.pairs.optim.schedule=step"])


def test_a_teacher_is_that_of_both_stages() -> None:
    stages = compose_train(["experiment=minilm_distilled", "auxiliary.sources=[runs/a]"])
    assert [stage.auxiliary.sources for stage in stages.values()] == [["runs/a"]] * 2
    plain = compose_train(["experiment=minilm_eol"])["pairs"]
    for key in ("model", "prompt", "data", "optim", "trainer", "senteval_text"):
        assert stages["pairs"][key] == plain[key]
    assert stages["pairs"].loss.terms.pearson._target_ == plain.loss._target_


@pytest.mark.parametrize("initialized", [True, False])
@pytest.mark.parametrize(
    ("defaults", "official"),
    [("[_self_, pearson]", False), ("[pearson, _self_]", True), ("[/loss/pearson@_here_, _self_]", True)],
)
def test_a_file_named_in_a_node_has_what_it_has_as_the_choice_of_its_group(
    defaults: str, official: bool, initialized: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loss").mkdir()
    (tmp_path / "loss" / "first.yaml").write_text(f"defaults: {defaults}\nofficial: true\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with composing():
        chosen = check_config(compose("train", ["name=x", "loss=first"]))
        mixed = compose(
            "train", ["name=x", "loss=mix", "loss.terms={a: first, b: {loss: first, official: true}}"]
        )
        if initialized:
            mixed = check_config(mixed)
    terms = check_config(mixed).loss.terms  # as of a configuration that is read from a folder
    assert terms.a == chosen.loss
    assert terms.a.official == official
    assert terms.b == {**chosen.loss, "official": True}


def test_a_file_named_in_a_node_that_hydra_cannot_compose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loss").mkdir()
    (tmp_path / "loss" / "first.yaml").write_text("defaults: [pearsn]\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with composing():
        cfg = compose("train", ["name=x", "loss=mix", "loss.terms={a: first}"])
        with pytest.raises(ConfigError, match=r"^loss\.terms\.a: loss=first cannot be composed: .*pearsn"):
            check_config(cfg)
