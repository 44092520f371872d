"""What the command `plan` rejects, as the run that it plans would."""

from __future__ import annotations

import pytest

from sts_lightning.cli.main import main
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("optim.lrr=1", "optim.lrr"),
        ("model=tiny_brt", "tiny_brt"),
        ("+stages.a.seed=3", "stages: no such setting"),
        ("+foo=1", "foo: no such setting"),
        ("trainer.val_every=0", "trainer.val_every"),
        ("plan=24GB", "plan: no such setting"),
        ("resume=run", "resume: no such setting"),
    ],
)
def test_a_mistake(override: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as stopped:
        main(["plan", override])
    assert named in str(stopped.value)
