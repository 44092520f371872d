"""Every command on a page of the documentation composes, parses or is a target of the Makefile."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from sts_lightning.cli.main import PROGRAM
from sts_lightning.config.folders import ENTRIES

ROOT = Path(__file__).parents[3]

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
WIDTH = 90
"""Characters of a line of commands that a page shows without scrolling."""

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

COMMAND = re.compile(r"(python (train|eval)\.py|(\.venv/bin/)?sts-lightning|make) ")


def blocks() -> Iterator[tuple[str, str]]:
    """Page and text of each block that names no language."""
    for page in PAGES:
        yield from ((page.name, text) for language, text in BLOCK.findall(page.read_text()) if not language)


def commands() -> Iterator[tuple[str, str]]:
    """Page and text of each command in a block."""
    for page, block in blocks():
        lines = map(str.strip, block.replace("\\\n", " ").splitlines())
        yield from ((page, " ".join(line.split())) for line in lines if COMMAND.match(line))


COMMANDS = sorted({*commands()})


def starting_with(*programs: str) -> list[str]:
    return list(dict.fromkeys(line for _, line in COMMANDS if line.startswith(programs)))


def words(line: str) -> list[str]:
    return shlex.split(line, comments=True)


def test_there_are_commands() -> None:
    assert {page for page, _ in COMMANDS} >= {"README.md", "commands.md", "decoders.md", "pcc_tuning.md"}


def test_commands_fit_the_page() -> None:
    lines = [line for _, block in blocks() for line in block.splitlines()]
    assert [line for line in lines if len(line) > WIDTH] == []


HYDRA = ("python", *(f"sts-lightning {entry} " for entry in ENTRIES))

TOOLS = [
    line for line in starting_with("sts-lightning", ".venv/bin/sts-lightning") if not line.startswith(HYDRA)
]


@pytest.mark.parametrize("line", TOOLS)
def test_tool(line: str) -> None:
    command: click.Command = PROGRAM
    context = command.make_context("sts-lightning", words(line)[1:])
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command, context = found, found.make_context(name, rest, parent=context)


@pytest.mark.parametrize("line", starting_with("make"))
def test_make(line: str) -> None:
    targets = re.findall(
        r"^([a-z0-9 -]+):", (ROOT / "Makefile").read_text().replace("\\\n\t", ""), re.MULTILINE
    )
    known = {name for targets_of_rule in targets for name in targets_of_rule.split()}
    asked = [word for word in words(line)[1:] if "=" not in word]
    assert {*asked} <= known


def test_one_version_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    heading = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released, _, development = version.partition(".dev")
    dated = f"[{released}] - {citation['date-released']}"
    assert heading is not None
    assert heading[1] == (f"[Unreleased]: {released}" if development else dated)
    assert citation["version"] == version
    assert f"sts_lightning-{version}-py3" in (ROOT / "docs" / "install.md").read_text()
