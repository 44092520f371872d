"""Where tests are: one file for each module, under its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT

SMALL = 40
"""Lines up to which a module may be tested with the module that uses it."""

ELSEWHERE = {
    "training/recorder.py": "scenarios/test_resume.py and test_killed.py: it is about whole runs",
    "workflows/train.py": "scenarios/test_run.py: likewise",
}
"""Modules whose tests have another name, and why."""

TOPICS = {"conf", "real", "scenarios", "shared_runs"}
"""Folders of tests by topic, of several modules together."""

LONGEST = 320


def modules() -> dict[str, Path]:
    """Modules by their path without the name of the package."""
    found = {}
    for path in (ROOT / "src").rglob("*.py"):
        package, *rest = path.relative_to(ROOT / "src").parts
        name = "/".join(rest) if package == "sts_lightning" else f"{package}/{path.name}"
        if path.name != "__init__.py":
            found[name] = path
    return found


def test_each_module_has_a_test_file_of_its_name() -> None:
    missing = [
        name
        for name, path in modules().items()
        if len(path.read_text().splitlines()) > SMALL
        and name not in ELSEWHERE
        and not (ROOT / "tests" / name).with_name(f"test_{path.name}").is_file()
    ]
    assert missing == []
    assert ELSEWHERE.keys() <= modules().keys()


@pytest.mark.parametrize("folder", sorted({name.partition("/")[0] for name in modules() if "/" in name}))
def test_each_test_file_has_a_module_of_its_name(folder: str) -> None:
    known = {f"tests/{Path(name).with_name(f'test_{Path(name).name}')}" for name in modules()}
    known.add("tests/losses/test_names.py")  # on losses, their YAML files and tests together
    files = (ROOT / "tests" / folder).rglob("test_*.py")
    assert [str(path.relative_to(ROOT)) for path in files if str(path.relative_to(ROOT)) not in known] == []
    assert folder not in TOPICS


def test_no_test_file_is_long() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in (ROOT / "tests").rglob("*.py")}
    assert {path.name: length for path, length in lengths.items() if length > LONGEST} == {}
