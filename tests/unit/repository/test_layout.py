"""Imports point one way."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from pkgutil import resolve_name

from tests.conftest import ROOT


@cache
def modules() -> dict[str, Path]:
    """Modules by their path without the name of the package."""
    found = {}
    for path in (ROOT / "src").rglob("*.py"):
        package, *rest = path.relative_to(ROOT / "src").parts
        name = "/".join(rest) if package == "sts_lightning" else f"{package}/{path.name}"
        if path.name != "__init__.py":
            found[name] = path
    return found


@cache
def trees() -> dict[str, ast.Module]:
    """Parsed modules."""
    return {name: ast.parse(path.read_text()) for name, path in modules().items()}


def imports() -> dict[str, set[str]]:
    """Modules of the project that each of its modules imports, inside functions and for types too."""
    found = {}
    for name, tree in trees().items():
        named = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                named |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        files = {f"{module.removeprefix('sts_lightning.').replace('.', '/')}.py" for module in named}
        found[name] = (files & modules().keys()) - {name}
    return found


def test_modules_import_one_way() -> None:
    TopologicalSorter(imports()).prepare()


def rooms() -> list[str]:
    """Rooms of the package in the order of CONTRIBUTING.md."""
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("| room | contents |")[2].partition("\n\n")[0]
    return re.findall(r"`(\w+)/`", re.sub(r"\|[^|]+\|$", "", table, flags=re.MULTILINE))


def test_each_room_imports_those_above_it_alone() -> None:
    place = {room: number for number, room in enumerate(rooms())}
    apart, wrong = {"data", "models", "losses"}, []
    for name, imported in imports().items():
        room = name.partition("/")[0]
        others = {other.partition("/")[0] for other in imported} - {room} if room in place else set()
        wrong += [(name, each) for each in others if place[each] > place[room] or {room, each} <= apart]
    assert wrong == []


def test_nothing_imports_papers_but_papers() -> None:
    """What only a published table needs is reached by its name, where a setting or a command asks for it."""
    importing = {
        name: papers
        for name, imported in imports().items()
        if not name.startswith("papers/")
        and (papers := {each for each in imported if each.startswith("papers/")})
    }
    assert importing == {}


def test_names_of_papers_lead_somewhere() -> None:
    """Names in strings, which no import checks."""
    named = {
        node.value
        for name, tree in trees().items()
        if not name.startswith("papers/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and re.fullmatch(r"sts_lightning\.papers\.[\w.:]+", str(node.value))
    }
    assert len(named) > 9
    for name in named:
        resolve_name(name)
