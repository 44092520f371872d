"""The figures that can be drawn: what each needs, and the commands that make it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml


@dataclass(frozen=True)
class FigureSpec:
    """A figure of a paper.

    Attributes:
        title: Paper, number and content.
        needs: Runs that it is drawn from.
        commands: Commands that make these runs and draw the figure.
        drawn_from: What it is drawn from: the runs of a table (``--table``), or run folders.
    """

    title: str
    needs: str
    drawn_from: Literal["nothing", "table", "runs", "evaluations"]
    commands: Sequence[str]


_FILE = Path(__file__).with_name("figures.yaml")
FIGURES = {name: FigureSpec(**spec) for name, spec in yaml.safe_load(_FILE.read_text("utf-8")).items()}
"""The figures by name."""
