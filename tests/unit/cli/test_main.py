"""The program `sts-lightning` itself."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest

from sts_lightning.cli import main as groups
from sts_lightning.cli.main import COMMANDS, DATA, PROGRAM, REPRODUCE, RUNS, main
from sts_lightning.config.folders import ENTRIES, Entry, script_of
from sts_lightning.core.errors import UserError
from tests.support.command_line import leaves


def test_there_are_eleven_commands() -> None:
    names = "train eval data plan reproduce export similarity leaks runs average ceiling"
    assert [*COMMANDS] == names.split()


PATHS = [
    *([name] for name, known in COMMANDS.items() if isinstance(known, str) and name not in ENTRIES),
    *(["data", name] for name in DATA),
    *(["reproduce", name] for name in REPRODUCE),
    *(["runs", name] for name in RUNS),
]


@pytest.mark.parametrize("path", PATHS)
def test_each_command_is_there_and_takes_no_option_that_swallows_what_follows(path: list[str]) -> None:
    command: click.Command = PROGRAM
    context = click.Context(PROGRAM)
    for name in path:
        assert isinstance(command, click.Group)
        _, found, _ = command.resolve_command(context, [name])
        assert found is not None
        command, context = found, click.Context(found, context, name)
    assert command.name == path[-1]
    assert command.help
    assert [one for one in command.params if isinstance(one, click.Option) and one.nargs < 0] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runs", "--de"], "Error: No such option '--de'"),
        (["runs", "list", "--bes"], "'--best'"),
        (["trian", "-m", "seed=1,2"], "Error: No such command 'trian'. Did you mean train?"),
        (["score", "runs/a", "a.csv"], "Error: No such command 'score'. Did you mean similarity?"),
        (["data", "score"], "Did you mean status, get, mine?"),
        (["seeds"], "Did you mean train, eval, data, "),
        (["similarity"], "similarity --help' for help.\n\nError: Missing argument 'MODEL'."),
        ([], "ceiling  "),
        (["data"], "Usage: sts-lightning data [OPTIONS] COMMAND"),
        (["runs", "compare"], "Missing argument 'RUN...'"),
        (["runs", "DIR", "--sort", "dev"], "Did you mean list, compare, check, mean?"),
        (["reproduce", "--debug", "lst"], "Did you mean list?"),
        (["plan", "--card"], "Option '--card' requires an argument."),
    ],
)
def test_wrong_command_lines(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["runs", "compare", "RUN", "--to", "RUN", "--resamples", "0"], "--resamples"),
        (["leaks", "FILE", "--against", "FILE", "--write", "MISSING/w.csv"], "--write"),
        (["leaks", "FILE", "--against", "FILE", "--list", "FOLDER"], "--list"),
        (["leaks", "FILE", "--near", "2"], "--near"),
        (["runs", "list", "FOLDER", "--csv", "MISSING/a.csv"], "--csv"),
    ],
)
def test_commands(
    arguments: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.csv").write_text("sentence1,sentence2,score\n" + "a,b,1\nc,d,2\n" * 10)
    (tmp_path / "folder").mkdir()
    places = {"RUN": "run", "FILE": "mine.csv", "MISSING": "missing", "FOLDER": "folder"}
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
        ([], ["train", "eval"], ["train", "eval"]),
        ([], ["--cfg", "job", "--", "~x"], ["--cfg", "job", "--", "~x"]),
        ([], [], []),
        (["--debug"], ["data=toy"], ["--debug", "data=toy"]),
        ([], ["--debug", "data=toy"], ["--debug", "data=toy"]),
        ([], ["data=toy", "--debug"], ["data=toy", "--debug"]),
    ],
)
@pytest.mark.parametrize("entry", ENTRIES)
def test_hydra_commands_get_their_arguments_as_they_are(
    entry: Entry, before: list[str], after: list[str], passed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr("sys.argv", ["bin/sts-lightning"])
    monkeypatch.setattr(groups.runpy, "run_path", lambda path, run_name: seen.append((path, run_name)))
    main([*before, entry, *after])
    assert seen == [(str(script_of(entry)), "__main__")]
    assert sys.argv == [str(script_of(entry)), *passed]


def test_debug_shows_the_trace_of_other_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in ("--debug runs list nowhere", "runs list nowhere --debug"):
        with pytest.raises(UserError, match="nowhere has no run"):  # as Python shows it
            main(line.split())
    with pytest.raises(SystemExit, match="error: nowhere has no run"):
        main(["runs", "list", "nowhere"])
