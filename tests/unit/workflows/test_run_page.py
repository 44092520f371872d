"""The page of a run, parsed."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from sts_lightning.evaluation.disagreements import Disagreement
from sts_lightning.runs.folder import RunFolder
from sts_lightning.runs.metrics import RunMetrics
from sts_lightning.workflows.report import write_page

PNG = b"\x89PNG not looked into"


class Checker(HTMLParser):
    """The tags of a page, and what it asks from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.sources += [str(value) for name, value in attrs if name in ("src", "href")]


class Texts(HTMLParser):
    """Headings of a page, and the cells of its tables."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tag = ""
        self.headings: list[str] = []
        self.cells: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tag = tag
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self.tag = ""

    def handle_data(self, data: str) -> None:
        if self.tag == "h2":
            self.headings.append(data)
        if self.tag == "td":
            self.cells[-1] += data


def scores(**more: object) -> RunMetrics:
    return RunMetrics(None, {"spearman": 70.0, "pearson": 71.0, "pairs": 9, **more})


def test_everything_on_a_page_that_asks_for_nothing(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.plots.mkdir()
    (run.plots / "curves.png").write_bytes(PNG)
    binary = {"average_precision": 90.0, "f1": 80.0, "accuracy": 85.0, "chosen_on": "dev"}
    details = {
        "wall_seconds": 90.0,
        "peak_memory_bytes": {"host": 2_000_000_000},
        "steps": 2,
        "data": [{"source": "<a>.csv", "read": 1000, "kept": 900, "weight": 0.5}],
    }
    metrics = RunMetrics(None, scores(binary=binary).dev, details)
    pair = Disagreement("mine", "<script>alert(1)</script>", "a & b", 5.0, 0.1, 0.9, 0.05)
    settings = {"optim": {"lr": 1e-4}, "loss": None, "model": {"name": "<b>"}, "data_root": "/mine"}
    write_page(run, metrics, [pair], settings)
    page = Texts(run.page_file)
    assert page.headings == ["Scores", "Two labels", "Plots", "Largest disagreements", "Data", "Cost"]
    assert "/mine" not in page.cells
    for cell in ("70.00", "<script>alert(1)</script>", "a & b", "0.0001", "null", "<b>", "<a>.csv", "0.5"):
        assert cell in page.cells, cell
    cost = page.cells.index("time")
    assert page.cells[cost : cost + 4] == ["time", "1.5 min", "peak memory", "2.00 GB"]
    text = run.page_file.read_text()
    assert "<script" not in text
    assert text.count("src=") == text.count('src="data:image/png;base64,') == 1


def test_a_run_without_inputs_has_a_shorter_page(tmp_path: Path) -> None:
    write_page(RunFolder(tmp_path), scores(), [], {})
    assert Texts(tmp_path / "report.html").headings == ["Scores"]
