"""Every notebook runs from its first cell to its last."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
COMMAND = re.compile(r"^!((?:.*\\\n)*.*)$", re.MULTILINE)
"""A line for the shell, and those it is continued on."""


def script_of(notebook: Path) -> str:
    """Return the code cells as a program: IPython's shell lines and files written, in plain Python."""
    parts = ["import subprocess", "from pathlib import Path"]
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] != "code":
            continue
        if text.startswith("%%writefile "):
            line, _, content = text.partition("\n")
            parts.append(f"Path({line.split()[1]!r}).write_text({content!r})")
        else:
            parts.append(
                COMMAND.sub(lambda found: f"subprocess.run({found[1]!r}, shell=True, check=True)", text)
            )
    return "\n".join(parts)


def run(notebook: Path, folder: Path) -> None:
    """Run the cells in an empty folder."""
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HF_HUB_OFFLINE": "1",
    }
    environment.pop("STS_DATA_ROOT", None)  # they read no published data
    done = subprocess.run(
        [sys.executable, "-c", script_of(notebook)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_pairs_of_ones_own(tmp_path: Path) -> None:
    run(FOLDER / "own_pairs.ipynb", tmp_path)
    scores = [
        json.loads((tmp_path / "runs" / name / "metrics.json").read_text())["test"]["average"]
        for name in ("untuned", "pearson")
    ]
    assert scores[1] > scores[0] + 1
    assert (tmp_path / "scores.csv").read_text().count("\n") > 200
    assert (tmp_path / "my_model" / "modules.json").is_file()


def test_notebooks_are_stored_without_outputs() -> None:
    assert len(NOTEBOOKS) == 2
    for notebook in NOTEBOOKS:
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
            assert not cell.get("outputs")
            assert cell.get("execution_count") is None
