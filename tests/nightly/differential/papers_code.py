"""The papers' own code: single classes, functions and statements, taken from its files at test time.

Its modules import releases of libraries that are gone, and some train on import, so they are not imported
as a whole. ``STS_PAPERS_CODE`` names the folder that holds the clones.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed
from torch import nn
from torch.nn import functional

LIBRARIES = {
    "torch": torch,
    "nn": nn,
    "F": functional,
    "dist": torch.distributed,
}
"""Modules by the names that the papers' code has for them."""


class OldEncoder(nn.Module):
    """A transformer that takes an argument which present releases do not have."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any, head_mask: Any = None, **settings: Any) -> Any:
        """Run the transformer without the argument."""
        return self.inner(*args, **settings)


def source(repository: str, path: str) -> ast.Module:
    """Parse a file of a clone; skip the test where it is absent."""
    root = os.environ.get("STS_PAPERS_CODE")
    if not root:
        pytest.skip("needs the papers' code: set STS_PAPERS_CODE to the folder of its clones")
    file = Path(root) / repository / path
    if not file.is_file():
        pytest.skip(f"needs the papers' code: there is no {file}")
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def definitions(repository: str, path: str, *names: str, **given: Any) -> dict[str, Any]:
    """Execute classes and functions of a file, nested ones too.

    Args:
        repository: Folder of the clone.
        path: Path of the file in it.
        names: Names of what is defined, in order.
        given: Further global names that it needs.
    """
    tree = source(repository, path)
    found = {
        node.name: node
        for node in reversed(list(ast.walk(tree)))
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }
    scope = {**LIBRARIES, **given}
    for name in names:
        exec(compile(ast.Module([found[name]], []), str(path), "exec"), scope)
    return scope


def statements(repository: str, path: str, first: str, last: str, **scope: Any) -> dict[str, Any]:
    """Execute the statements of a block from the assignment of a name to that of another.

    Args:
        repository: Folder of the clone.
        path: Path of the file in it.
        first: Name that the first statement assigns to.
        last: Name that the last statement assigns to.
        scope: Names that the statements read.
    """
    nodes = ast.walk(source(repository, path))
    for block in (getattr(node, name, None) for node in nodes for name in ("body", "orelse")):
        if not isinstance(block, list):
            continue
        places = [index for index, part in enumerate(block) if _assigns(part, first)]
        if not places:
            continue
        ends = [index for index, part in enumerate(block) if _assigns(part, last) and index > places[0]]
        if ends:
            scope = {**LIBRARIES, **scope}
            exec(compile(ast.Module(block[places[0] : ends[0] + 1], []), str(path), "exec"), scope)
            return scope
    raise AssertionError(f"{path} assigns no {first} and then {last}")


def _assigns(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == name for target in statement.targets
    )
