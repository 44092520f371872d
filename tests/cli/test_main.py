"""The program `sts-lightning` itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sts_lightning.cli import main as program
from sts_lightning.cli.main import COMMANDS, HYDRA, main
from sts_lightning.entry_points import ENTRIES, Entry, script_of
from tests.cli.helpers import leaves
from tests.runs.test_predictions import write_predictions

PROGRAM = """
import sys
from sts_lightning.cli.main import main
try:
    main(["--help"])
except SystemExit as error:
    assert error.code == 0
loaded = {"torch", "datasets", "hydra", "numpy", "transformers"} & set(sys.modules)
assert not loaded, loaded
"""


def test_help_names_every_command_and_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    first_words = [line.split()[0] for line in done.stdout.splitlines() if line.strip()]
    assert {*COMMANDS, *HYDRA} <= set(first_words)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["compare", "RUN", "--to", "RUN", "--resamples", "0"], "--resamples"),
        (["compare", "RUN", "--to", "RUN", "--resamples", "-5"], "--resamples"),
        (["compare", "RUN", "--to", "RUN", "--resamples", "1.5"], "--resamples"),
        (["compare", "NAN", "--to", "RUN"], "nan/predictions.npz"),
        (["leaks", "FILE", "--against", "FILE", "--write", "MISSING/w.csv"], "--write"),
        (["leaks", "FILE", "--against", "FILE", "--list", "FOLDER"], "--list"),
        (["leaks", "FILE", "--against", "FILE", "--list", "MISSING/l.csv"], "--list"),
        (["leaks", "FILE", "--near", "nan"], "--near"),
        (["leaks", "FILE", "--near", "2"], "--near"),
        (["leaks", "FILE", "--columns", "sentence1", "sentence1"], "--columns"),
        (["export", "FOLDER", "FILE/x"], "config.yaml"),
    ],
)
def test_commands(
    arguments: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.csv").write_text("sentence1,sentence2,score\n" + "a,b,1\nc,d,2\n" * 10)
    (tmp_path / "folder").mkdir()
    write_predictions(tmp_path / "run", [0.1, 0.2, 0.3], [1.0, 3.0, 2.0])
    write_predictions(tmp_path / "nan", [0.1, float("nan"), 0.3], [1.0, 3.0, 2.0])
    places = {"RUN": "run", "NAN": "nan", "FILE": "mine.csv", "MISSING": "missing", "FOLDER": "folder"}
    for word, name in places.items():
        arguments = [argument.replace(word, str(tmp_path / name)) for argument in arguments]
    before = sorted(tmp_path.rglob("*"))
    assert named in leaves(*arguments, capsys=capsys)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("before", "after", "passed"),
    [
        ([], ["-m", "seed=1,2", "--config-dir", "x"], ["-m", "seed=1,2", "--config-dir", "x"]),
        ([], ["--help"], ["--help"]),
        ([], [], []),
        (["--debug"], ["data=toy"], ["data=toy", "debug=true"]),
    ],
)
@pytest.mark.parametrize("entry", ENTRIES)
def test_hydra_commands_get_their_arguments_as_they_are(
    entry: Entry, before: list[str], after: list[str], passed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr("sys.argv", ["bin/sts-lightning"])
    monkeypatch.setattr(program.runpy, "run_path", lambda path, run_name: seen.append((path, run_name)))
    main([*before, entry, *after])
    assert seen == [(str(script_of(entry)), "__main__")]
    assert sys.argv == [str(script_of(entry)), *passed]
    assert set(HYDRA) == set(ENTRIES)
