"""Stored calibrations: round trip, broken files, other weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sts_lightning.errors import CheckpointError
from sts_lightning.runs.calibration_file import Calibration, fingerprint, load_calibration, save_calibration
from sts_lightning.runs.folder import RunFolder

CALIBRATION = Calibration((-0.1, 0.3, 0.9), (0.5, 0.5, 4.75), 0.1 + 0.2, 0.9, (0.0, 5.0), 30, 31)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "run")
    run.checkpoints.mkdir(parents=True)
    run.checkpoint("best").write_bytes(b"weights")
    settings = {
        "name": "mine",
        "model": {"name": "somewhere/base", "pooling": "mean"},
        "prompt": {"template": None},
        "evaluation": {"text_edit": "none", "final": True},
    }
    run.config_file.write_text(yaml.safe_dump(settings))
    return run


def change(run: RunFolder, *path: str, value: Any) -> None:
    settings = yaml.safe_load(run.config_file.read_text())
    inner = settings
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    run.config_file.write_text(yaml.safe_dump(settings))


@pytest.mark.parametrize("bounds", [None, (0.0, 5.0)])
def test_what_is_written_is_read(bounds: tuple[float, float] | None, run: RunFolder) -> None:
    made = Calibration(*[*vars(CALIBRATION).values()][:4], bounds, 30, 31)
    save_calibration(run.calibration_file, made, fingerprint(run))
    assert load_calibration(run.calibration_file, run) == made


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("model", "pooling"), "cls"),
        (("prompt", "template"), "a {sentence}"),
        (("evaluation", "text_edit"), "official"),
        (("evaluation", "max_length"), 9),
    ],
)
def test_another_encoder_is_rejected(path: tuple[str, ...], value: Any, run: RunFolder) -> None:
    save_calibration(run.calibration_file, CALIBRATION, fingerprint(run))
    for harmless in (("name",), ("model", "name"), ("evaluation", "final")):
        change(run, *harmless, value="other")
    load_calibration(run.calibration_file, run)
    change(run, *path, value=value)
    with pytest.raises(CheckpointError, match="other weights or settings") as raised:
        load_calibration(run.calibration_file, run)
    assert raised.value.key == "calibration"


def test_other_weights_are_rejected(run: RunFolder) -> None:
    save_calibration(run.calibration_file, CALIBRATION, fingerprint(run))
    run.checkpoint("best").write_bytes(b"Weights")
    with pytest.raises(CheckpointError, match="other weights or settings"):
        load_calibration(run.calibration_file, run)
    run.checkpoint("best").unlink()
    with pytest.raises(CheckpointError, match=r"best\.ckpt cannot be read"):
        load_calibration(run.calibration_file, run)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cosines", []),
        ("cosines", [0.1, 0.3]),
        ("cosines", [0.3, 0.1, 0.9]),
        ("cosines", [0.1, 0.1, 0.9]),
        ("cosines", "abc"),
        ("scores", [1.0, 0.5, 2.0]),
        ("scores", [0.0, float("nan"), 1.0]),
        ("scores", None),
        ("half_width", -1),
        ("half_width", float("inf")),
        ("coverage", 1.0),
        ("score_range", [0.0]),
        ("score_range", {"a": 1}),
        ("fitted", "many"),
    ],
)
def test_a_broken_file_is_named(key: str, value: Any, run: RunFolder) -> None:
    save_calibration(run.calibration_file, CALIBRATION, fingerprint(run))
    values = json.loads(run.calibration_file.read_text())
    run.calibration_file.write_text(json.dumps({**values, key: value}))
    with pytest.raises(CheckpointError, match=r"calibration\.json is no calibration"):
        load_calibration(run.calibration_file, run)
    del values[key]
    run.calibration_file.write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=r"calibration\.json is no calibration"):
        load_calibration(run.calibration_file, run)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"fingerprint": 1}', None])
def test_what_is_no_calibration(content: bytes | None, run: RunFolder) -> None:
    if content is not None:
        run.calibration_file.write_bytes(content)
    with pytest.raises(CheckpointError) as raised:
        load_calibration(run.calibration_file, run)
    assert raised.value.key == "calibration"
