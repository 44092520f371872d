"""Choices of settings: each is defined once."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.conftest import ROOT


def test_no_choice_is_defined_twice() -> None:
    places = defaultdict(list)
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if isinstance(value, ast.Subscript) and ast.unparse(value.value) == "Literal":
                places[frozenset(ast.literal_eval(ast.unparse(value.slice)))].append(path.name)
    assert len(places) > 15
    assert {values: files for values, files in places.items() if len(files) > 1} == {}
