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
from sts_lightning.config.folders import VARIABLE, Entry, command_line
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
    "trainer.save_every=null": "trainer.save_every=null: field 'trainer.save_every' is not Optional.",
    "optim=[1]": "optim=[1]: ",
    "optim.lrr=1": r"optim.lrr: no such setting. Did you mean optim.lr?",
    "regularizer.coefficient=1": "regularizer.coefficient: no such setting. It belongs to regularizer=",
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
    said = str(message("path=a.csv,b.csv"))
    for words in ("Ambiguous value for argument 'path=a.csv,b.csv'", "use key=[value1,value2]", "quote"):
        assert words in said
    assert "'seed=range(1,3)' requires --multirun" in str(message("seed=range(1,3)"))


def test_what_is_no_setting() -> None:
    words = "has no value. A setting is given as key=value, a run folder as"
    assert str(message("pearson")) == f"pearson {words} resume=RUN."
    assert str(message("runs/one", "eval")) == f"runs/one {words} ckpt=RUN."


def test_a_file_of_the_users_that_is_no_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loss").mkdir()
    (tmp_path / "loss" / "mine.yaml").write_text("_target_: a\n  b: 1\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(
        ConfigError, match=r"^mapping values are not allowed here in \".*loss/mine.yaml\", line 2"
    ):
        compose_train(["loss=mine"])


def test_a_run_alone() -> None:
    cfg = compose_train(["model=tiny_bert", "data=toy"])
    assert (cfg.name, cfg.init_from) == ("toy-pearson-tiny_bert", None)
    assert "hydra" not in cfg


@pytest.mark.parametrize(
    ("defaults", "scale"),
    [("[_self_, cosent]", 20.0), ("[cosent, _self_]", 10.0), ("[/loss/cosent@_here_, _self_]", 10.0)],
)
def test_a_file_has_the_same_settings_wherever_it_is_chosen(
    defaults: str, scale: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loss").mkdir()
    (tmp_path / "loss" / "first.yaml").write_text(f"defaults: {defaults}\nscale: 10.0\n")
    (tmp_path / "experiment").mkdir()
    text = "defaults: [/loss@loss.parts.b: first, override /loss: joint]\nloss: {parts: {b: {scale: 5.0}}}\n"
    (tmp_path / "experiment" / "mine.yaml").write_text(f"# @package _global_\n{text}")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    chosen = check_config(compose_train(["loss=first"])).loss
    assert chosen.scale == scale
    parts = check_config(compose_train(["experiment=mine", "+loss@loss.parts.a=first"])).loss.parts
    assert (parts.a, parts.b) == (chosen, {**chosen, "scale": 5.0})
    mix = ["loss=mix", "+loss@loss.terms.c=divided", "loss@loss.terms.c.inner=first"]
    assert check_config(compose_train(mix)).loss.terms.c.inner == chosen


def test_parts_have_the_order_in_which_they_are_chosen_and_settings_of_their_own() -> None:
    chosen = ["+data@data.parts.b=triplets_file", "+data@data.parts.a=sts", "data.parts.b.batch_size=7"]
    cfg = check_config(compose_train(["data=joint", *chosen, "+data.parts.b.path=mine.csv"]))
    assert list(cfg.data.parts) == ["b", "a"]  # the last selects
    assert (cfg.data.parts.b.batch_size, cfg.data.parts.b.path) == (7, "mine.csv")
    assert cfg.data.parts.a == check_config(compose_train([])).data
    assert cfg.name == "joint-pearson-minilm"


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("loss=joint loss.parts={nli:infonce}", "+loss@loss.parts.nli=infonce"),
        ("data=joint data.parts={nli:nli_triplets}", "+data@data.parts.nli=nli_triplets"),
        ("data=joint data.parts={qa:{data:triplets_file,path:a.csv}}", "+data@data.parts.qa=triplets_file"),
        ("loss=divided loss.inner=infonce", "loss@loss.inner=infonce"),
        ("loss=divided loss.inner={loss:gist,guide:self}", "loss@loss.inner=gist"),
        ("loss=mix +loss@loss.terms.a=divided loss.terms.a.inner=gist", "loss@loss.terms.a.inner=gist"),
        ("experiment=minilm_joint data.parts.nli.data=toy", "data@data.parts.nli=NAME"),
        ("loss=joint loss@loss.parts.nli=infonce", "+loss@loss.parts.nli=infonce"),
    ],
)
def test_a_choice_within_another_that_is_typed_wrong_is_answered_by_the_right_words(
    typed: str, words: str
) -> None:
    overrides = typed.split()
    check_choices(overrides)
    with pytest.raises(ConfigError, match=rf"\s{re.escape(words)}( and its|\.?$)"):
        check_config(compose_train(overrides))


def test_names_in_a_file_of_the_users_own_are_answered_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loss").mkdir()
    (tmp_path / "loss" / "two.yaml").write_text("defaults: [mix, _self_]\nterms: {a: pearson, b: null}\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(ConfigError, match=r"typed as \+loss@loss\.terms\.a=pearson") as caught:
        check_config(compose_train(["loss=two"]))
    assert caught.value.key == "loss.terms.a"


@pytest.mark.parametrize("typed", ["+loss@loss.parts.nli=persson", "loss@loss.inner=persson"])
def test_an_unknown_choice_within_another(typed: str) -> None:
    with pytest.raises(ConfigError, match=r"there is no loss named 'persson'\. Did you mean pearson"):
        check_choices([typed])
