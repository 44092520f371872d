"""Which folders the configuration is read from, and in which order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra

from sts_lightning.config.compose import composing
from sts_lightning.config.folders import PACKAGED, VARIABLE, files_of, folders, set_user_folder, user_folder
from sts_lightning.core.errors import ConfigError
from tests.conftest import CONF, PAPERS_CONF, ROOT


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with nothing in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path


def add(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_package_is_that_of_the_checkout() -> None:
    assert PACKAGED == CONF
    assert user_folder() is None  # conf of the working directory is the package's


def test_conf_of_the_working_directory_comes_first(empty: Path) -> None:
    assert folders() == (CONF, PAPERS_CONF)
    add(empty, "conf/sts_lightning", "")
    mine = add(empty, "conf/loss/mine.yaml", "_target_: x")
    other = add(empty, "conf/loss/pearson.yaml", "_target_: y")
    assert folders() == (empty / "conf", CONF, PAPERS_CONF)
    found = files_of("loss")
    assert (found["mine"], found["pearson"]) == (mine, other)
    assert found["cosent"] == CONF / "loss/cosent.yaml"
    assert found["mixcse"] == PAPERS_CONF / "loss/mixcse.yaml"
    assert list(found) == sorted(found)


def test_the_variable_takes_precedence(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(empty, "conf/loss/mine.yaml", "")
    add(empty, "other/loss/own.yaml", "")
    monkeypatch.setenv(VARIABLE, "other")
    assert folders() == (empty / "other", CONF, PAPERS_CONF)
    assert "mine" not in files_of("loss")
    monkeypatch.setenv(VARIABLE, "")
    assert folders() == (CONF, PAPERS_CONF)
    monkeypatch.setenv(VARIABLE, str(CONF))
    assert folders() == (CONF, PAPERS_CONF)
    monkeypatch.setenv(VARIABLE, "absent")
    with pytest.raises(ConfigError) as caught:
        folders()
    assert caught.value.key == VARIABLE


@pytest.mark.parametrize(
    "arguments", [["--config-dir", "other"], ["-cd=other", "x=1"], ["--config-dir=other"]]
)
def test_hydras_option_names_the_folder_for_jobs_too(
    arguments: list[str], empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "set so that monkeypatch restores it")
    (empty / "other").mkdir()
    set_user_folder(["-m", *arguments])
    assert os.environ[VARIABLE] == str(empty / "other")
    assert folders() == (empty / "other", CONF, PAPERS_CONF)


@pytest.mark.parametrize("arguments", [["--config-dir"], ["config-dir=other"], []])
def test_everything_else_is_left_to_hydra(
    arguments: list[str], empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "as before")
    (empty / "other").mkdir()
    set_user_folder(arguments)
    assert os.environ[VARIABLE] == "as before"


def test_composing_finds_a_choice_of_the_user_and_prefers_it(empty: Path) -> None:
    add(empty, "conf/sts_lightning", "")
    add(empty, "conf/loss/mine.yaml", "defaults: [cosent]\nscale: 10.0\n")
    add(
        empty, "conf/prompt/eol.yaml", (CONF / "prompt/eol.yaml").read_text().replace("in one word", "in two")
    )
    with composing():
        cfg = compose("train", ["loss=mine", "prompt=eol", "name=x"])
        table = compose("train", ["experiment=mixcse", "scale=minilm", "callbacks=rank_monitor"])
        repository = GlobalHydra.instance().config_loader().list_groups("")
        assert "mine" in GlobalHydra.instance().config_loader().get_group_options("loss")
    assert cfg.loss.scale == 10.0
    assert "in two" in cfg.prompt.template
    assert {"experiment", "papers"} <= set(repository)
    assert (table.loss._target_, table.trainer.max_steps) == (
        "sts_lightning.papers.losses.paper_code.PaperCodeMixCSELoss",
        60,
    )


def test_other_applications_of_hydra_are_left_alone(empty: Path) -> None:
    """The plugin is loaded by every application of Hydra in the environment."""
    add(empty, "conf/app.yaml", "a: 1")
    add(empty, "theirs/app.yaml", "a: 2")
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(empty / "theirs"), version_base="1.3"):
        assert compose("app").a == 2
        path = GlobalHydra.instance().config_loader().get_search_path()
    assert isinstance(path, ConfigSearchPath)
    assert not {"user", "papers"} & {entry.provider for entry in path.get_path()}


def test_no_other_module_locates_the_configuration() -> None:
    named = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "src").rglob("*.py")
        if any(text in path.read_text() for text in ('Path("conf', '/ "conf"', 'config_path="conf'))
    ]
    assert named == ["src/sts_lightning/config/folders.py"]
