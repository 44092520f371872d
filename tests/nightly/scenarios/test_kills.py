"""Runs killed at random moments, through the command line: `make test-kills`.

KILLS is the number of runs that are killed (default 4), and KILLS_SEED that of the random moments.
WARM=1 forks the processes from one that has imported the libraries, which is several times as fast.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sts_lightning.runs.folder import RunFolder
from tests.conftest import EXACT
from tests.support.killing import Ended, Starter, same_to_the_bit

SHORT = [
    EXACT,
    "model=tiny_bert",
    "data=toy",
    "name=kills",
    "data.train_size=128",
    "data.dev_size=20",
    "data.test_size=20",
    "data.batch_size=16",
    "trainer.max_epochs=2",
    "trainer.log_every_n_steps=1",
    "trainer.save_every=3",
    "trainer.keep_state=true",  # to compare it
    "logger=csv",
]

SETTINGS = {
    "pearson": SHORT,
    "infonce": [
        *SHORT,
        "loss=infonce",
        "data.kind=sentences",
        "auxiliary=momentum_queue",
        "auxiliary.size=12",
        "trainer.micro_batch_size=4",
        "trainer.keep_every=5",
        "callbacks=[early_stopping,ema,rank_monitor]",
        "callbacks.early_stopping.patience=9",
    ],
}

STATUS = {
    signal.SIGKILL: {-9},
    signal.SIGTERM: {143, -15},  # the second before train.py listens, and after its results are written
    signal.SIGINT: {130, -2},
}
"""Exit statuses of a run that a signal stopped; a shell shows 128 + N for -N."""


@pytest.fixture(scope="session")
def starter() -> Iterator[Starter]:
    made = Starter(warm=os.environ.get("WARM") == "1")
    yield made
    made.close()


@pytest.fixture(scope="session")
def whole(starter: Starter, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Ended]]:
    """An uninterrupted run of each configuration, and how it ended; the first start imports the libraries."""
    found = {}
    for name, settings in [("first", SHORT), *SETTINGS.items()]:
        folder = tmp_path_factory.mktemp(name)
        ended = starter.run(folder, folder / "output", *settings, "hydra.run.dir=run")
        assert ended.status == 0, (folder / "output").read_text()
        found[name] = (folder / "run", ended)
    return found


@pytest.mark.parametrize("number", range(int(os.environ.get("KILLS", "4"))))
def test_killed_and_resumed(
    number: int, starter: Starter, whole: dict[str, tuple[Path, Ended]], tmp_path: Path
) -> None:
    chance = random.Random(f"{os.environ.get('KILLS_SEED', '0')} {number}")
    name = chance.choice(list(SETTINGS))
    uninterrupted, ended = whole[name]
    kills = chance.choice([1, 1, 1, 2, 3])
    output, run, told = tmp_path / "output", tmp_path / "run", []
    while (state := RunFolder(run).state) != "finished":
        again = state == "interrupted" or (state == "started" and chance.random() < 0.5)
        arguments = ["resume=run"] if again else [*SETTINGS[name], "hydra.run.dir=run"]
        signalled = None
        if kills:
            kills -= 1
            signalled = chance.choice(list(STATUS))
        at = chance.random() * ended.seconds
        status = starter.run(tmp_path, output, *arguments, number=signalled, at=at).status
        told.append(f"{state}: {signalled and signalled.name} at {at:.2f} of {ended.seconds:.2f} s: {status}")
        expected = {0} | (STATUS[signalled] if signalled else set())
        assert status in expected, "\n".join([*told, output.read_text()])
    text = output.read_text()
    assert "Traceback" not in text or ": -2" in " ".join(told), text
    same_to_the_bit(uninterrupted, run)
