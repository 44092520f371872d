"""`sts-lightning data`, against a local hub, and training on mined negatives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from sts_lightning.cli.main import main
from sts_lightning.workflows.start import train_in
from tests.conftest import ROOT
from tests.support.hub_server import Hub
from tests.support.published_files import SIMCSE, sts_files, tar

PINNED = "e145e8bb659b2aa2669f32ef79cb4cdef6c58fef"


def call(arguments: list[str], **options: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sts_lightning.cli.main", "data", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)  # type: ignore[call-overload, no-any-return]


def test_from_nothing_to_the_seven_tasks(hub: Hub, tmp_path: Path) -> None:
    """As a user does it, in processes of their own; the commit is that of the project's table."""
    hub.add(SIMCSE, {"senteval.tar": tar(sts_files())}, commit=PINNED)
    root = str(tmp_path / "data")
    missing = call(["status", "--root", root], cwd=ROOT)
    assert missing.returncode == 0, missing.stderr
    assert f"sts-lightning data get sts --root {root}" in missing.stdout
    fetched = call(["get", "sts", "--root", root], cwd=tmp_path)
    assert fetched.returncode == 0, fetched.stderr
    assert f"{SIMCSE}: senteval.tar at {PINNED[:8]}" in fetched.stdout
    assert f"/datasets/{SIMCSE}/resolve/{PINNED}/senteval.tar" in [request.path for request in hub.requests]
    listed = call(["status", "--root", root], cwd=tmp_path)
    assert "complete" in listed.stdout
    hub.requests.clear()
    again = call(["get", "--root", root, "sts"], cwd=tmp_path)
    assert again.returncode == 0
    assert hub.requests == []


def test_help_on_mining_needs_no_torch() -> None:
    code = "import sys\nfrom sts_lightning.cli.main import main\n"
    code += "try:\n  main(['data', 'mine', '--help'])\n"
    code += "except SystemExit:\n  pass\nassert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert "--relative-margin" in done.stdout


@pytest.mark.parametrize("columns", ["[anchor,positive,negative]", "[anchor,positive,negative,negative2]"])
def test_training_on_mined_negatives(
    columns: str, config: Callable[..., DictConfig], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file with two negatives is read without settings, too: its first ones."""
    pairs, mined, dev = (tmp_path / name for name in ("pairs.csv", "mined.csv", "dev.csv"))
    words = ("dogs", "rain", "music", "the sea", "a guitar", "soup", "maps", "chess")
    pairs.write_text("sentence1,sentence2\n" + "".join(f"{word} {word},{word}\n" for word in words))
    dev.write_text("sentence1,sentence2,score\na dog,a cat,1\nrain,snow,3\nchess,chess,5\n")
    settings = ["model=tiny_bert", "data=triplets_file", "loss=infonce", f"path={mined}"]
    settings += [f"data.dev_path={dev}", f"data.columns={columns}", "data.batch_size=2", "logger=csv"]
    cfg = config(*settings, "trainer.max_epochs=-1", "trainer.max_steps=2")
    with caplog.at_level("INFO"):
        main(["data", "mine", "tiny_bert", str(pairs), "--to", str(mined), "--negatives", "2"])
        train_in(tmp_path / "run", cfg)
    assert "step 2, loss" in caplog.text
