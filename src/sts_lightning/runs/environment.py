"""Versions, commit and platform of a run."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "sts-lightning",
    "torch",
    "lightning",
    "transformers",
    "tokenizers",
    "peft",
    "bitsandbytes",
    "datasets",
    "scipy",
    "numpy",
)


def peak_memory() -> dict[str, int]:
    """Return the peak resident memory of the process and peak allocated memory of the GPU, in bytes."""
    import torch  # not needed by a sweep, which starts other processes

    peak = {}
    if sys.platform != "win32":
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        peak["host"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    if torch.cuda.is_available():
        peak["cuda"] = torch.cuda.max_memory_allocated()
    return peak


def environment() -> dict[str, Any]:
    """Return versions, commit and platform, stored with the metrics of a run."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {"versions": versions, "git_commit": _git_commit(), "platform": platform.platform()}


def _git_commit() -> str | None:
    """Return the commit of the code, with ``+changes`` if files differ; None outside a checkout."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(here), *arguments], capture_output=True, text=True, check=False
            )
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    # A site-packages folder may lie inside the checkout of another project.
    if git("ls-files", "--error-unmatch", __file__) is None:
        return None
    commit = git("rev-parse", "HEAD")
    return f"{commit}+changes" if commit and git("status", "--porcelain", "--untracked-files=no") else commit
