"""Imports point one way."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

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


def test_modules_and_folders_import_one_way() -> None:
    """Without a circle, neither of modules nor of folders."""
    graph = imports()
    TopologicalSorter(graph).prepare()
    folders: dict[str, set[str]] = {}
    for name, imported in graph.items():
        folder = name.rpartition("/")[0].partition("/")[0]
        others = {other.rpartition("/")[0].partition("/")[0] for other in imported} - {"papers"}
        folders.setdefault(folder, set()).update(others - {folder})
    TopologicalSorter(folders).prepare()
