"""What needs the user's word, and that the word is enough."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest

from sts_lightning.core.errors import UntrustedError
from tests.support import run_entries as entries
from tests.support.run_entries import ENTRIES, SHORT, train_py

OWN = "from sts_lightning.losses.pearson import PearsonLoss\nclass MyLoss(PearsonLoss):\n    pass\n"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The dotted name of a loss of the user's own."""
    module = f"own_{uuid.uuid4().hex}"
    (tmp_path / f"{module}.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    return f"{module}.MyLoss"


@pytest.mark.usefixtures("keeps_state")
def test_a_run_with_a_class_of_the_users_own(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fresh run needs no consent, whatever it is built from, and neither does its encoder."""
    entries.no_suite(monkeypatch)
    train_py(tmp_path / "first", *SHORT, f"loss._target_={own}")
    for number, (entry, read) in enumerate(ENTRIES.items()):
        run = shutil.copytree(tmp_path / "first", tmp_path / entry)
        if entry == "resume":
            (run / "metrics.json").unlink()
        if entry in ("resume", "average"):  # an average is selected on the run's data
            with pytest.raises(UntrustedError, match=own):
                read(run, tmp_path / f"out{number}")
            read(run, tmp_path / f"out{number}", "trust=true")
        else:
            read(run, tmp_path / f"out{number}")
    assert (tmp_path / "resume" / "metrics.json").is_file()
    (tmp_path / "first" / "metrics.json").unlink()
    train_py(tmp_path / "first", *SHORT, f"loss._target_={own}")  # the same command composes it
    assert (tmp_path / "first" / "metrics.json").is_file()
