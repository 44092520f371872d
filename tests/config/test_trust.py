"""What needs the user's word, and that the word is enough."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from omegaconf import DictConfig

from sts_lightning.config.trust import Trust, read_config, read_stages
from sts_lightning.errors import UntrustedError
from sts_lightning.runs.folder import RunFolder
from tests.conftest import CONF

Config = Callable[..., DictConfig]


def choices(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def test_one_message_names_all_that_has_to_be_added(tmp_path: Path) -> None:
    own = "own.MyLoss"
    cfg = {
        "model": {"_target_": "my.model", "trust_remote_code": True},
        "loss": {"_target_": own},
        "trainer": {"extra": {"plugins": "x"}},
        "evaluation": {},
        "prompt": {},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(cfg))
    with pytest.raises(UntrustedError) as caught:
        RunFolder(tmp_path).load_config()
    message = str(caught.value)
    names = ["my.model", own, "trainer.extra.plugins"]
    assert f"trust=[{','.join(names)}] trust_remote_code=true (train, eval)" in message
    options = " ".join(f"--trust {name}" for name in names)
    assert f"{options} --trust-remote-code (sts-lightning export)" in message
    assert f"trust={names!r}, trust_remote_code=True (sts_lightning.load)" in message
    trust = Trust.of(names, True)
    assert RunFolder(tmp_path).load_config(trust).loss._target_ == own
    for less in (Trust.of(names, False), Trust.of(names[:2], True), Trust.of(names[1:], True)):
        with pytest.raises(UntrustedError):
            RunFolder(tmp_path).load_config(less)


@pytest.mark.parametrize("value", ["${oc.env:HOME}", "x'; rm -rf ~; '.y", ["a"], {"a": "b"}])
def test_no_consent_is_offered_for_what_no_run_has(value: object, tmp_path: Path) -> None:
    """In particular no text that a shell would run when it is pasted."""
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"loss": {"_target_": value}}))
    with pytest.raises(UntrustedError, match="no run of this project has") as caught:
        read_config(path, Trust.of([str(value)], True))
    assert "trust=" not in str(caught.value)


def test_a_stored_folder_to_write_to_is_dropped_without_consent(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    target = "sts_lightning.training.teacher_vectors.TeacherVectors"
    stored = {"companion": {"_target_": target, "sources": ["a"], "cache_dir": "/elsewhere"}}
    path.write_text(yaml.safe_dump(stored))
    assert read_config(path).companion == {**stored["companion"], "cache_dir": None}
    assert read_config(path, Trust.of(["companion.cache_dir"], False)) == stored
    path.write_text(yaml.safe_dump({"one": stored}))
    assert read_stages(path)["one"].companion.cache_dir is None
    assert read_stages(path, Trust.of(["companion.cache_dir"], False))["one"] == stored
    path.write_text(yaml.safe_dump({"companion": {**stored["companion"], "cache_dir": "${oc.env:HOME}"}}))
    with pytest.raises(UntrustedError, match="cache_dir"):
        read_config(path)


def test_stored_consent_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"trust": ["a.b"], "trust_remote_code": True, "seed": 1}))
    assert read_config(path) == {"trust": [], "trust_remote_code": False, "seed": 1}
