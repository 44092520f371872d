"""Where tests are: one file for each module, under its name."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import ROOT

SMALL = 40
"""Lines up to which a module may be tested with the module that uses it."""

ELSEWHERE = {
    "training/recorder.py": "scenarios/test_resume.py and test_killed.py: it is about whole runs",
    "workflows/train.py": "scenarios/test_run.py: likewise",
    "workflows/run_config.py": "scenarios/test_resume.py: likewise",
    "workflows/shared_stage.py": "scenarios/test_shared_stages.py: likewise",
    "workflows/check.py": "sweep/test_shared_stages.py: what a sweep's plan checks",
    "config/stages.py": "sweep/test_shared_stages.py and workflows/test_stages.py",
    "sweep/plan.py": "sweep/test_shared_stages.py: jobs and stages of a sweep together",
    "data/fetch/parts.py": "data/fetch/test_inventory.py and test_get.py: what they find and fetch",
    "data/readers/hub_errors.py": "data/readers/test_hub.py: messages of reading",
    "models/lora_dropout.py": "gpu/test_lora_dropout.py: the same tests run on a GPU",
    "models/pipeline.py": "models/test_modules_json.py and test_pipeline_files.py: what is read into it",
    "cli/search.py": "cli/test_score.py: the same run",
    "planning/blueprint.py": "planning/test_step.py: the traced step as a whole, against a real one",
    "planning/fake.py": "planning/test_step.py: likewise",
    "planning/kernels.py": "planning/test_step.py: likewise",
    "planning/workload.py": "planning/test_estimate.py: steps and tokens of an estimate",
    "reproduce/papers.py": "reproduce/test_state.py: the page that is made of it",
    "testing/profiled.py": "planning/test_step.py: the measured side of the comparison",
    "training/assembly.py": "training/test_module.py and scenarios/test_golden.py",
    "training/companion.py": "training/test_teacher.py, test_twin.py and test_masked_lm.py: its kinds",
    "workflows/figure_list.py": "cli/test_figure.py",
    "workflows/verify_scores.py": "workflows/test_verify.py: all checks of a folder together",
    "workflows/verify_weights.py": "workflows/test_verify.py: likewise",
    "workflows/figure_runs.py": "workflows/test_figures.py",
    "workflows/report.py": "scenarios/test_run.py: what it writes and prints",
}
"""Modules whose tests have another name, and why."""

SECOND = {
    "tests/losses/test_names.py",  # losses, their YAML files and tests together
    "tests/config/test_bad_input.py",  # bad values of every setting, through all checks
    "tests/data/test_broken_files.py",  # broken files of every format, through all readers
    "tests/models/test_broken_model_files.py",  # files of models, likewise
    "tests/runs/test_broken_run_files.py",  # folders of runs and of vectors, likewise
    "tests/runs/test_broken_json_files.py",  # JSON files of runs, data roots and tables, likewise
    "tests/data/readers/test_hub_folder.py",  # data/readers/hub.py on folders
    "tests/models/test_adapter_variants.py",  # models/adapter.py with training and export
    "tests/models/test_evaluation_length.py",  # where evaluation cuts, over tokenizer and encoder
    "tests/models/test_families.py",  # gradients, precisions and adapters of all families of models
    "tests/reproduce/test_data_counts.py",  # numbers of examples, over all forms of a table
}
"""Further test files of a module, or of several."""

TOPICS = {"conf", "differential", "real", "scenarios", "shared_runs"}
"""Folders of tests by topic, of several modules together."""

LONGEST = 320


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
    known |= SECOND
    files = (ROOT / "tests" / folder).rglob("test_*.py")
    assert [str(path.relative_to(ROOT)) for path in files if str(path.relative_to(ROOT)) not in known] == []
    assert folder not in TOPICS


LONGEST_FUNCTION = 60
"""Lines of a function without its docstring."""


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
        others = {other.rpartition("/")[0].partition("/")[0] for other in imported}
        folders.setdefault(folder, set()).update(others - {folder})
    assert folders[""] == set()  # the files beside the folders are leaves
    TopologicalSorter(folders).prepare()


def function_lines(node: ast.FunctionDef) -> int:
    first = node.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (node.end_lineno or 0) - node.lineno + 1 - docstring


def test_no_function_is_long() -> None:
    lengths = {
        f"{name}, {node.name}": function_lines(node)
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


@pytest.mark.parametrize("folder", ["src", "tests"])
def test_no_file_is_long(folder: str) -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in (ROOT / folder).rglob("*.py")}
    assert {path.name: length for path, length in lengths.items() if length > LONGEST} == {}
